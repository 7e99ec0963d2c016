import json
import re
from collections.abc import Iterable
from statistics import mean
from typing import Any

import pytest
from explore.conftest import EXPLORE, Open, slide

from experiments.async_states import settings as async_states
from experiments.async_states.__main__ import RESULTS as SILENCE
from experiments.pareto import report as pareto_report
from experiments.runs import read, rows_of
from fltoolkit.units import amount
from fltoolkit_research import bytes_to_reach, compared, groups, points, seconds_on
from fltoolkit_research.intervals import interval, mean_ci, paired

pytestmark = pytest.mark.browser


def percent(value: float, digits: int) -> str:
    return f"{100 * value:.{digits}f} %"


def cells(tab: Any, table: str) -> list[list[str]]:
    """The rows of a table without its heads."""
    return tab.evaluate(
        "id => [...document.querySelectorAll(`#${id} tbody tr`)].map("
        "row => [...row.children].map(cell => cell.textContent))",
        table,
    )


def around(values: Iterable[float]) -> str:
    """The interval of accuracies as the pages show it; nothing for a single value."""
    found = interval([100 * value for value in values])
    return f" [{found.low:.2f} %, {min(found.high, 100):.2f} %]" if found.known else ""


@pytest.mark.parametrize(("data", "words"), [("digits", "IID"), ("mnist", "non-IID")])
def test_the_one_plot_shows_the_stored_runs(open_page: Open, data: str, words: str) -> None:
    tab = open_page("pareto", f"#data={data}&partition={words}")
    results = pareto_report.parts_of(pareto_report.read_kept())[data, words]
    results = [r for r in results if r.experiment.protocol.name != "nothing"]  # below the figure
    found, by_name = points(results), groups(results)
    stars = {
        row.point.name: {"*": "yes", "(*)": "(yes)", "": ""}[row.star] for row in compared(results)
    }
    target = pareto_report.TARGETS[data]
    each = {n: [bytes_to_reach(r.history, target) for r in runs] for n, runs in by_name.items()}
    needs = {n: mean(b for b in found if b) for n, found in each.items() if None not in found}
    assert cells(tab, "all") == [
        [
            p.name,
            percent(p.value, 2),
            around(p.values.values()),
            amount("nbytes", p.nbytes),
            amount("nbytes", needs[p.name]) if p.name in needs else "never",
            stars[p.name],
        ]
        for p in found
    ]
    of = {p.name: p.values for p in found}
    name, base = "loss gate 0.1, Float8", pareto_report.settings.BASELINE_SPLIT
    tab.select_option("#method", name)
    gains = [100 * gain for gain in paired(of[name], of[base])]
    wanted = f"{mean_ci(gains, '+.2f')} points beside {base}, paired by seed ({len(gains)})."
    assert wanted in tab.inner_text("#printed").replace("−", "-")
    records = {r.experiment.seed: r.history[-1] for r in by_name[name]}
    assert cells(tab, "seeds") == [
        [
            str(seed),
            percent(last["accuracy"], 2),
            amount("nbytes", last["nbytes"]),
            f"{last['num_waits']:,}",
        ]
        for seed, last in records.items()
    ]
    ledger = {(row[0], row[1]): row[2] for row in cells(tab, "ledger")}
    for kind, way in (("activations", "up"), ("gradients", "down")):
        sent = mean(last[f"nbytes_{kind}_{way}"] for last in records.values())
        assert ledger[kind, way] == amount("nbytes", sent)


def test_silence_shows_the_stored_runs(open_page: Open) -> None:
    task = async_states.Task()
    rows = rows_of(task, async_states.settings(task), read(SILENCE))
    of = {(s.part, s.name): list(runs.values()) for s, runs in rows}
    large = of["equal bytes, large budget", "loss threshold"]
    tab = open_page("silence")
    for place, runs in ((1, of["8-bit floats", "loss threshold 0.02"]), (3, large)):
        slide(tab, "threshold", place)
        said = tab.inner_text("#said")
        accuracies = [r["accuracy"] for r in runs]
        assert f"{percent(mean(accuracies), 2)}{around(accuracies)}" in said
        assert amount("nbytes", mean(r["nbytes"] for r in runs)) in said
        assert f"{len(runs)} seeds" in said
        total = sum(sum(r["steps"].values()) for r in runs)
        both, up, silent = (percent(sum(r["steps"][s] for r in runs) / total, 0) for s in "ABC")
        assert f"both ways {both}, up only {up}, silent {silent}" in said


def test_the_page_of_a_codec_shows_what_python_measured(open_page: Open) -> None:
    kept = (EXPLORE / "data" / "codec.js").read_text(encoding="utf-8")
    table = json.loads(kept.partition(" = ")[2].rstrip(";\n"))  # Python's: see test_export.py
    tab = open_page("codec", "#tensor=gradient")
    for bits, kept, entropy in ((1, 7, False), (4, 4, True)):
        slide(tab, "bits", table["bits"].index(bits))
        slide(tab, "kept", kept)
        tab.set_checked("#entropy", entropy)
        key = f"{table['fractions'][kept]:g}/{bits}"
        plain, coded, nominal, _, *errors, num, _ = table["tensors"]["gradient"]["stops"][key]
        shown, lost = cells(tab, "numbers"), [row[1] for row in cells(tab, "errors")]
        for _, each, sent in shown:  # one unit in a column, and each cell writes it
            assert each.endswith(" bits")
            assert sent.endswith(" B")
        assert shown[2][2] == f"{coded if entropy else plain:,} B"
        assert float(shown[1][1].split()[0]) == pytest.approx(nominal, abs=0.011)
        found = [float(words.split()[0]) for words in lost[:2]]
        assert found == pytest.approx(errors, rel=0.06)
        assert lost[2] == f"{num:,} of 5,120"
        assert ("worse than sending nothing" in tab.inner_text("#said")) == (errors[0] > 1)
        assert tab.inner_text("#leak") == "not run"
    tab.select_option("#tensor", "activation")
    slide(tab, "kept", 7)
    *share, num = table["leaks"]["1/4"]
    wanted = [*(pytest.approx(100 * each, abs=0.051) for each in share), num]
    found = re.findall(r"[−+-]?\d[\d.]*", tab.inner_text("#leak").replace("−", "-"))
    assert [float(each) for each in found] == wanted


def test_the_advisor_shows_what_python_says(open_page: Open) -> None:
    tab = open_page("advisor", "#clients=500&parameters=1000000&share=0.1&epochs=1&rounds=1")
    told: dict[str, Any] = {}
    exec(tab.inner_text("#code"), told)
    shown = cells(tab, "numbers")
    assert [row[2] for row in shown[:2]] == [
        amount("nbytes", told[method]) for method in ("split", "federated")
    ]
    assert f"from {told['crossover']:,} owners on" in tab.inner_text("#said")
    for row, method in zip(shown, ("split", "federated"), strict=False):
        record = {"nbytes": told[method], "num_waits": int(row[3].replace(",", ""))}
        seconds = seconds_on(record, rate=100e6 / 8, latency=0.02)  # as the sliders begin
        assert row[4] == tab.evaluate("v => explore.seconds(v)", seconds)
