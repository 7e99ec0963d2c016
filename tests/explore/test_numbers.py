"""What the pages compute and show is what Python computes and what was stored."""

import base64
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch
from explore.conftest import slide

from experiments.async_states import settings as async_states
from experiments.async_states.__main__ import RESULTS as SILENCE
from experiments.fedavg_results import null_rows as fedavg_null
from experiments.fedavg_results import settings as fedavg
from experiments.fedavg_results.__main__ import RESULTS as ROUNDS
from experiments.language import data_parallel, finetune
from experiments.language import pooled as language_pooled
from experiments.language import report as language_report
from experiments.language import split as language_split
from experiments.language.__main__ import RESULTS as WORKERS
from experiments.language.task import Task
from experiments.leakage import settings as leakage
from experiments.leakage.__main__ import RESULTS as LEAKS
from experiments.leakage.report import rows_of as leakage_rows_of
from experiments.null_rows import ALONE, ONE_BIT, REQUIRED, SEND, WITHOUT_OWNERS, WORST, data_nbytes
from experiments.pareto import report as pareto_report
from experiments.runs import nats_above, read, rows_of
from fltoolkit import advise
from fltoolkit.codecs import Pipeline, Quantize, TopK, num_kept
from fltoolkit.cost import ModelCost
from fltoolkit.units import amount
from fltoolkit_course.plots import describe_codec
from fltoolkit_research import (
    Experiment,
    Point,
    bytes_to_reach,
    compared,
    front,
    groups,
    points,
    seconds_on,
    value_within,
)
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.intervals import interval, mean_ci, paired

pytestmark = pytest.mark.browser
DATA = Path(__file__).parents[2] / "docs" / "explore" / "data"
PARTS = {
    key: [r for r in results if r.experiment.protocol.name != "nothing"]  # below the figure
    for key, results in pareto_report.parts_of(pareto_report.read_kept()).items()
}
Open = Callable[..., Any]


def data_of(name: str) -> Any:
    return json.loads((DATA / f"{name}.js").read_text().partition(" = ")[2].rstrip(";\n"))


def percent(value: float, digits: int) -> str:
    return f"{100 * value:.{digits}f} %"


def numbers_in(words: str) -> list[float]:
    return [float(each.replace("−", "-")) for each in re.findall(r"[−+-]?\d[\d.]*", words)]


def cells(tab: Any, table: str) -> list[list[str]]:
    """The rows of a table without its heads."""
    return tab.evaluate(
        "id => [...document.querySelectorAll(`#${id} tbody tr`)].map("
        "row => [...row.children].map(cell => cell.textContent))",
        table,
    )


# ------------------------------------------------------------------------------------- formulas


def test_advise_is_that_of_python(open_page: Open) -> None:
    tab = open_page("advisor")
    models = ((189_450, 183_040, 640), (10**6, 10**5, 640), (10**8, 10**4, 128))
    owners = ((60_000, 1), (60_000, 10), (60_000, 500), (1437, 7), (1, 1))
    for (n, below, cut), (samples, clients), (epochs, rounds, batch) in itertools.product(
        models, owners, ((1, 1, 64), (10, 25, 32))
    ):
        model = {"parameters": n, "parametersClient": below, "cutWidth": cut}
        setting = {"samples": samples, "clients": clients, "epochs": epochs, "rounds": rounds}
        found = tab.evaluate(
            "([m, s]) => explore.advise(m, s)", [model, {**setting, "batchSize": batch}]
        )
        told = advise(
            ModelCost(n, below, 4 * n, 4 * below, cut, 0, 0),
            num_samples=samples,
            num_clients=clients,
            epochs=epochs,
            rounds=rounds,
            batch_size=batch,
        )
        assert found == {
            "largeBatch": told.large_batch_sgd.nbytes,
            "federated": told.federated.nbytes,
            "split": told.split.nbytes,
            "crossover": told.crossover_clients,
        }


def test_waits_are_those_of_the_recorded_runs(open_page: Open) -> None:
    tab, seen = open_page("advisor"), 0
    for (data, words), results in PARTS.items():
        samples = {"digits": 1437, "mnist": 60_000}[data]
        for result in results if words == "IID" else ():
            e = result.experiment
            if e.protocol.name not in ("relay", "fedavg"):
                continue
            setting = {"samples": samples, "clients": 10, "epochs": e.rounds, "rounds": e.rounds}
            found = tab.evaluate("s => explore.waits(s)", {**setting, "batchSize": e.batch_size})
            key = "split" if e.protocol.name == "relay" else "federated"
            assert found[key] == result.history[-1]["num_waits"], e.name
            seen += 1
    assert seen > 50


def test_seconds_on_a_link_are_those_of_python(open_page: Open) -> None:
    tab = open_page("pareto")
    shown = tab.evaluate(
        "([rate, latency]) => explore.data.pareto.tasks.map(t => t.methods.map(m => m.runs.map("
        "r => explore.secondsOn(r, rate, rate, latency))))",
        [1.25e6, 0.02],
    )
    for task, (_, results) in zip(shown, PARTS.items(), strict=True):
        for runs, seconds in zip(groups(results).values(), task, strict=True):
            for found, result in zip(seconds, runs, strict=True):
                wanted = seconds_on(result.history[-1], rate=1.25e6, latency=0.02)
                assert math.isclose(found, wanted, rel_tol=1e-12)
    run = {"nbytes": 600, "up": 100, "down": 300, "waits": 3}  # 200 from client to client
    found = tab.evaluate("r => explore.secondsOn(r, 10, 100, 1)", run)
    assert found == 100 / 10 + 300 / 100 + 200 / 10 + 3


def test_budgets_and_targets_are_those_of_python(open_page: Open) -> None:
    tab = open_page("pareto")
    for number, results in enumerate(PARTS.values()):
        for nbytes, accuracy in ((1e6, 0.9), (9.1e6, 0.96), (3e8, 0.5)):
            found = tab.evaluate(
                "([i, b, a]) => { const t = explore.data.pareto.tasks[i]; return t.methods.flatMap("
                "m => m.runs.map(r => [explore.valueWithin(r, b, t.num_test),"
                " explore.costToReach(r, a, t.num_test)])); }",
                [number, nbytes, accuracy],
            )
            wanted = [
                [value_within(r.history, nbytes), bytes_to_reach(r.history, accuracy)]
                for runs in groups(results).values()
                for r in runs
            ]
            assert [need for _, need in found] == [need for _, need in wanted]
            for (value, _), (told, _) in zip(found, wanted, strict=True):
                # the mean of owners is no whole number of samples: its last bit may differ
                assert value == (told if told is None else pytest.approx(told, rel=1e-14))


def test_budgets_of_seconds_use_every_evaluation(open_page: Open) -> None:
    """On a link with equal rates: bytes so far, and waits so far, which grow with the rounds."""
    rate, latency, budget, target = 1.25e6, 0.02, 100.0, 0.9
    tab = open_page("pareto")
    earlier = 0
    for number, results in enumerate(PARTS.values()):
        found = tab.evaluate(
            "([i, rate, latency, b, a]) => { const t = explore.data.pareto.tasks[i];"
            " const cost = r => explore.secondsOn(r, rate, rate, latency);"
            " return t.methods.flatMap("
            "m => m.runs.map(r => [explore.valueWithin(r, b, t.num_test, cost),"
            " explore.costToReach(r, a, t.num_test, cost)])); }",
            [number, rate, latency, budget, target],
        )
        runs = [r for each in groups(results).values() for r in each]
        for (within, needs), run in zip(found, runs, strict=True):
            *before, last = run.history
            numbers = range(1, len(before) + 1)
            for i, r in zip(numbers, before, strict=True):  # evaluations are evenly spaced
                assert abs(i / len(run.history) - r["round"] / last["round"]) < 0.01
            waits = [last["num_waits"] * i / len(run.history) for i in (*numbers, len(run.history))]
            spent = [
                r["nbytes"] / rate + w * latency for r, w in zip(run.history, waits, strict=True)
            ]
            scores = run.history.column("accuracy")
            reached = [t for t, score in zip(spent, scores, strict=True) if score >= target]
            paid = [score for t, score in zip(spent, scores, strict=True) if t <= budget]
            assert within == (pytest.approx(paid[-1], rel=1e-14) if paid else None)
            assert (needs is None) == (not reached)
            if reached:
                assert math.isclose(needs, reached[0], rel_tol=1e-12)
                earlier += needs < spent[-1]
    assert earlier > 100  # a finished run would have cost more


def test_intervals_are_those_of_python(open_page: Open) -> None:
    tab, random = open_page("advisor"), np.random.default_rng(0)
    for num in range(1, 11):
        values = random.normal(size=num).tolist()
        found = tab.evaluate("v => explore.interval(v)", values)
        wanted = interval(values)
        low, high = (wanted.low, wanted.high) if wanted.known else (wanted.mean, wanted.mean)
        expected = {"value": wanted.mean, "low": low, "high": high, "num": num}
        assert found == pytest.approx(expected, rel=1e-6)
    assert tab.evaluate("explore.interval([0.8, 1], 1).high") == 1 < interval([0.8, 1]).high


def test_the_front_is_that_of_python(open_page: Open) -> None:
    """Of points with some seeds in common, with a single seed, and with equal means and bytes."""
    tab, random = open_page("advisor"), np.random.default_rng(0)
    sizes, by_means = set(), 0
    for _ in range(200):
        found = [
            Point(
                str(k),
                Experiment(),
                int(random.integers(1, 8)),
                {
                    int(s): round(float(0.5 + 0.01 * k + 0.02 * random.normal()), 2)
                    for s in random.permutation(4)[: random.integers(1, 5)]
                },
            )
            for k in range(8)
        ]
        names = tab.evaluate(
            "points => explore.front(points).map(p => p.name)",
            [
                {
                    "name": p.name,
                    "cost": p.nbytes,
                    "value": p.value,
                    "num": p.num_seeds,
                    "seeds": {str(s): v for s, v in p.values.items()},
                }
                for p in found
            ],
        )
        assert names == [p.name for p in front(found)]
        sizes.add(len(names))
        best = [max(q.value for q in found if q.nbytes <= p.nbytes) == p.value for p in found]
        by_means += sum(best) > len(names)
    assert len(sizes) > 2
    assert by_means > 50  # noise took some off the front


def test_amounts_read_as_in_python(open_page: Open) -> None:
    tab = open_page("advisor")
    for nbytes in (0, 999, 1000, 163_854, 9_345_678, 944_400_000, 4_608_337_890, 2.5e12):
        assert tab.evaluate("v => explore.bytes(v)", nbytes) == amount("nbytes", nbytes)


# ------------------------------------------------------------------------------- what is shown


def cut(values: Sequence[float], most: float = 100.0) -> list[float]:
    """Mean and ends of an interval of shares, as the pages cut it."""
    found = interval(values)
    return [found.mean, found.low, min(found.high, most)]


def around(values: Iterable[float]) -> str:
    """The interval of accuracies as the pages show it; nothing for a single value."""
    _, low, high = cut([100 * value for value in values])
    return f" [{low:.2f} %, {high:.2f} %]" if np.isfinite(low) else ""


@pytest.mark.parametrize(("data", "words"), PARTS)
def test_the_one_plot_shows_the_stored_runs(open_page: Open, data: str, words: str) -> None:
    tab, results = open_page("pareto", f"#data={data}&partition={words}"), PARTS[data, words]
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
    for name, base in (
        ("STC 1 % both ways", pareto_report.BASELINE_FEDERATED),
        ("SplitNN, float32", ""),
        ("loss gate 0.1, Float8", pareto_report.BASELINE_SPLIT),
    ):
        tab.select_option("#method", name)
        runs = by_name[name]
        gains = [100 * gain for gain in paired(of[name], of[base])] if base else []
        wanted = (
            f"{mean_ci(gains, '+.2f')} points beside {base}, paired by seed ({len(gains)})."
            if base
            else ""
        )
        assert bool(gains) == bool(base)
        assert wanted in tab.inner_text("#printed").replace("−", "-")
        assert cells(tab, "seeds") == [
            [
                str(r.experiment.seed),
                percent(r.history[-1]["accuracy"], 2),
                amount("nbytes", r.history[-1]["nbytes"]),
                f"{r.history[-1]['num_waits']:,}",
            ]
            for r in runs
        ]
        ledger = {(row[0], row[1]): row[2] for row in cells(tab, "ledger")}
        for key in runs[0].history[-1]:
            kind, _, way = key.removeprefix("nbytes_").rpartition("_")
            if key.startswith("nbytes_") and kind:
                sent = mean(r.history[-1][key] for r in runs)
                way = "handed on" if way == "across" else way
                assert ledger[kind, way] == amount("nbytes", sent)


def test_our_factors_are_those_of_the_results_page(open_page: Open) -> None:
    page = (DATA.parents[1] / "results.md").read_text(encoding="utf-8")
    table = page.partition("### Factors in print and ours")[2].partition("###")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    tab = open_page("pareto", "#data=digits")
    assert len(rows[2:]) == 6
    for name, words, source, up, total, _, why in rows[2:]:
        tab.select_option("#method", name)
        shown = tab.inner_text("#oursup"), tab.inner_text("#ourstotal")
        assert shown == (up, total)
        printed = tab.inner_text("#printed")
        assert words in printed
        assert source in printed
        assert why in printed


def reached(curve: list[list[float]], goal: float) -> int:
    """The number of the first round with that accuracy; 0 if there is none."""
    return next((n for n, (*_, a) in enumerate(curve, 1) if a >= goal), 0)


@pytest.mark.parametrize(("words", "part"), [("IID", "IID"), ("non-IID", "two shards per client")])
def test_averaging_by_rounds_and_bytes_to_a_target(open_page: Open, words: str, part: str) -> None:
    rows = [
        (s.name, list(found.values()))
        for s, found in rows_of(fedavg.Task(), fedavg.settings(), read(ROUNDS))
        if s.part == part
    ]
    nulls = {"IID": "iid", "non-IID": "shards"}[words]
    null_runs = {
        name: runs
        for name, runs in groups(fedavg_null.results(nulls)).items()
        if not name.startswith("nothing")
    }
    null = [
        (name, [{"accuracy": r.history[-1]["accuracy"]} for r in runs])
        for name, runs in null_runs.items()
    ]
    assert {SEND, ONE_BIT, ALONE, WORST} <= {name for name, _ in null}
    tab = open_page("pareto", f"#data=fedavg&partition={words}&x=rounds&target=0.97")
    shown = {row[0]: row[1:] for row in cells(tab, "all")}
    assert shown.keys() == {name for name, _ in [*rows, *null]}
    for name, runs in null:
        found = float(shown[name][0].removesuffix(" %"))
        assert found == pytest.approx(100 * mean(r["accuracy"] for r in runs), abs=0.0051)
    for name, runs in rows:
        told = numbers_in(" ".join(shown[name][:2]))
        wanted = cut([100 * r["accuracy"] for r in runs])[: len(told)]
        assert len(told) == (3 if len(runs) > 1 else 1)
        assert told == pytest.approx(wanted, abs=0.0051)  # a half may be rounded either way
    for x in ("rounds", "nbytes"):
        tab.select_option("#x", x)
        needs = {}
        for name, runs in rows:
            at = [reached(r["curve"], 0.97) for r in runs]
            if all(at):
                bytes_ = [sum(r["curve"][n - 1][:2]) for n, r in zip(at, runs, strict=True)]
                needs[name] = mean(at if x == "rounds" else bytes_)
        for name, runs in null_runs.items():  # a pass at the receiver's stands for a round
            at = [reached([[r["accuracy"]] for r in run.history], 0.97) for run in runs]
            if all(at):
                sent = [run.history[n - 1]["nbytes"] for n, run in zip(at, runs, strict=True)]
                needs[name] = mean(at if x == "rounds" else sent)
        name = min(needs, key=lambda each: needs[each])

        def words(cost: float, x: str = x) -> str:
            digits = int(cost % 1 > 0)
            return f"{cost:,.{digits}f} rounds" if x == "rounds" else amount("nbytes", cost)

        wanted = f"97.0 % is cheapest with {name}: {words(needs[name])}; "
        assert tab.inner_text("#attarget").startswith(
            f"{wanted}{len(needs)} of {len(rows) + len(null)} methods"
        )
        assert {row[0]: row[4] for row in cells(tab, "all")} == {
            name: words(needs[name]) if name in needs else "never" for name, _ in [*rows, *null]
        }


TOGETHER = ("methods", "null models", "warm start", "ablations", "no server, and moments")


def language_rows() -> dict[str, list[tuple[Any, dict[int, Any]]]]:
    """By the page's key of the task: settings and their finished runs."""
    task = Task()
    stored = rows_of(task, data_parallel.settings(task), read(WORKERS))
    side_by_side = map(language_pooled.holding_all, stored)
    found: dict[str, list[Any]] = {}
    for row in side_by_side:
        group = row[0].group
        like = "workers" if group in TOGETHER else f"workers {group}"
        found.setdefault(re.sub(r"\W+", "-", like), []).append(row)
    for name, module in (("split", language_split), ("finetune", finetune)):
        stored = read(WORKERS.with_name(f"language_{name}.jsonl"))
        for title, each in module.TASKS.items():
            found[f"{name}-{title}"] = rows_of(each, module.settings(each), stored)
    for key, rows in found.items():
        kept = [(s, {k: r for k, r in runs.items() if "nats" in r}) for s, runs in rows]
        found[key] = [(s, runs) for s, runs in kept if runs]
    return {key: rows for key, rows in found.items() if rows}


LANGUAGE = language_rows()


@pytest.mark.parametrize("key", LANGUAGE)
def test_language_models_show_the_stored_runs(open_page: Open, key: str) -> None:
    tab, rows = open_page("language", f"#task={key}"), LANGUAGE[key]
    shown = {row[0]: row[1:] for row in cells(tab, "all")}
    assert shown.keys() == {s.name for s, _ in rows}
    for setting, runs in rows:
        nats = [r["nats"] for r in runs.values()]
        sent = mean(r["nbytes"] for r in runs.values())
        value, ends, cost, _, _ = shown[setting.name]
        assert float(value) == pytest.approx(mean(nats), abs=6e-4)
        assert numbers_in(ends) == (
            pytest.approx(interval(nats)[1:3], abs=6e-4) if len(nats) > 1 else []
        )
        assert cost == amount("nbytes", sent)
    best = front(  # of less loss, which is more of minus the loss
        Point(
            s.name,
            Experiment(),
            mean(r["nbytes"] for r in runs.values()),
            {seed: -r["nats"] for seed, r in runs.items()},
        )
        for s, runs in rows
    )
    assert {name for name, row in shown.items() if row[-1]} == {point.name for point in best}
    single = all(len(runs) == 1 for _, runs in rows)
    assert {row[-1] for row in shown.values()} - {"", "yes"} == ({"(yes)"} if single else set())


@pytest.mark.parametrize("key", LANGUAGE)
def test_the_panel_of_a_language_model(open_page: Open, key: str) -> None:
    """Ledger, seeds, the difference to the reference, and both factors."""
    rows = LANGUAGE[key]
    by_name = {s.name: runs for s, runs in rows}
    base_of = {
        method["name"]: method["baseline"]
        for task in data_of("language")["tasks"]
        if task["key"] == key
        for method in task["methods"]
    }
    tab = open_page("language", f"#task={key}")
    for setting, runs in rows[:: max(1, len(rows) // 5)]:
        tab.select_option("#method", setting.name)
        sent = mean(r["nbytes"] for r in runs.values())
        seeds = {row[0]: row[1:] for row in cells(tab, "seeds")}
        assert seeds.keys() == {str(r["seed"]) for r in runs.values()}
        ledger = {row[0]: row[2] for row in cells(tab, "ledger")}
        assert ledger["all"] == amount("nbytes", sent)
        base = by_name.get(base_of[setting.name] or "", {})
        if key.startswith("workers"):
            uplink = mean(r["uplink"] for r in runs.values())
            once = ledger.get("each message once", ledger.get("update", amount("nbytes", 0)))
            assert once == amount("nbytes", uplink)
            own = language_report.OWN[setting.optimizer]
            if any(name.startswith(own) for name in by_name):
                assert (base_of[setting.name] or "").startswith(own)
            assert (setting.claim or "") in tab.inner_text("#printed")
        if not sent:
            assert tab.inner_text("#factor") == "It sends nothing."
        if not base or base is runs:
            continue
        above = nats_above(runs, base)
        assert numbers_in(tab.inner_text("#gap")) == pytest.approx([mean(above)], abs=6e-4)
        said = tab.inner_text("#printed").partition(" nats beside ")[0]
        told = numbers_in(" ".join(re.findall(r"[−+][\d.]+", said)))
        assert told == pytest.approx(interval(above)[: len(told)], abs=6e-4)
        assert len(told) == (3 if len(above) > 1 else 1)
        if sent:
            times = mean(r["nbytes"] for r in base.values()) / sent
            assert tab.inner_text("#ourstotal") == f"{times:,.1f}"
            if key.startswith("workers"):
                times = mean(r["uplink"] for r in base.values()) / uplink
                assert tab.inner_text("#oursup") == f"{times:,.1f}"


def test_all_language_runs_are_on_the_page() -> None:
    tasks = data_of("language")["tasks"]
    assert [task["key"] for task in tasks] == [*LANGUAGE]
    for task in tasks:
        found = {m["name"]: {run["seed"] for run in m["runs"]} for m in task["methods"]}
        assert found == {
            s.name: {r["seed"] for r in runs.values()} for s, runs in LANGUAGE[task["key"]]
        }


def dominated(rows: list[tuple[Any, dict[int, Any]]], loser: str, winners: set[str]) -> bool:
    """Whether one of the winners has fewer nats for fewer bytes."""
    pairs = {
        s.name: [mean(r[k] for r in runs.values()) for k in ("nbytes", "nats")] for s, runs in rows
    }
    cost, nats = pairs[loser]
    return any(pairs[name][0] < cost and pairs[name][1] < nats for name in winners & pairs.keys())


def test_what_the_page_concludes_is_in_the_stored_runs() -> None:
    rows = LANGUAGE["workers"]
    sending = [s.name for s, _ in rows if s.group == "methods"]
    beaten = [name for name in sending if dominated(rows, name, {"Muon, one worker alone"})]
    assert len(beaten) >= 3
    for key, rows in LANGUAGE.items():
        if key.startswith("split"):
            few = {s.name for s, _ in rows if s.part == language_split.PLAIN}
            rare = [
                s.name for s, _ in rows if s.part == language_split.SILENCE or "moved" in s.name
            ]
            assert all(dominated(rows, name, few) for name in rare if "bits" not in name), key
        if key.startswith("finetune"):
            assert dominated(rows, "LoRA 8, float32", {"full, 2 bits (EDEN)"}), key


def test_the_goal_line_of_a_language_model(open_page: Open) -> None:
    """Less is better: a goal is reached from above, and the cheapest that does is named."""
    tab, rows = open_page("language", "#task=workers&target=2.2"), LANGUAGE["workers"]
    there = [
        (mean(r["nbytes"] for r in runs.values()), s.name)
        for s, runs in rows
        if max(r["nats"] for r in runs.values()) <= 2.2
    ]
    least, said = min(cost for cost, _ in there), tab.inner_text("#attarget")
    told, _, rest = said.removeprefix("2.20 nats is cheapest with ").rpartition(": ")
    assert told in {name for cost, name in there if cost == least}
    assert rest.startswith(f"{amount('nbytes', least)}; ")
    assert f"{len(there)} of {len(rows)} methods" in said
    tab.select_option("#x", "seconds")
    assert "seconds on your link" in tab.inner_text("#plot")


def test_the_budget_slider_names_the_best_of_the_stored_runs(open_page: Open) -> None:
    tab = open_page("pareto", "#data=digits&partition=non-IID")
    by_name, seen = groups(PARTS["digits", "non-IID"]), set()
    for place in (8, 19, 25, 50):
        slide(tab, "budget", place)
        budget = 10 ** ((round(25 * math.log10(1e3)) + place) / 25)
        budget = float(f"{budget:.3g}")
        best: dict[str, list[float]] = {}
        for name, runs in by_name.items():
            each = [value_within(r.history, budget) for r in runs]
            if None not in each:
                best[name] = [100 * a for a in each if a is not None]
        most = max(map(mean, best.values()))  # several may have it
        ends = {tuple(cut(each)) for each in best.values() if math.isclose(mean(each), most)}
        wanted = tuple(
            f": {m:.2f} % [{lo:.2f} %, {hi:.2f} %] (stopped there)." for m, lo, hi in ends
        )
        said = tab.inner_text("#atbudget")
        assert said.startswith(f"With {amount('nbytes', budget)} the best is ")
        assert said.endswith(wanted)
        seen.add(said.partition(" the best is ")[2])
    assert len(seen) > 2


def test_silence_shows_the_stored_runs(open_page: Open) -> None:
    task = async_states.Task()
    results = read(SILENCE)
    rows = rows_of(task, async_states.settings(task), results)
    of = {(s.part, s.name): list(runs.values()) for s, runs in rows}
    small, large = (of[f"equal bytes, {w} budget", "loss threshold"] for w in ("small", "large"))
    stops = [
        of["8-bit floats", "vanilla, 8 bits"],
        of["8-bit floats", "loss threshold 0.02"],
        of["8-bit floats", "loss threshold 0.05"],
        large,
        of["8-bit floats", "loss threshold 0.2"],
        of["8-bit floats", "loss threshold 0.4"],
        small,
    ]
    tab = open_page("silence")
    for place, runs in enumerate(stops):
        slide(tab, "threshold", place)
        said = tab.inner_text("#said")
        accuracies = [r["accuracy"] for r in runs]
        assert f"{percent(mean(accuracies), 2)}{around(accuracies)}" in said
        assert amount("nbytes", mean(r["nbytes"] for r in runs)) in said
        assert f"{len(runs)} seeds" in said
        shares = [
            sum(r["steps"][s] for r in runs) / sum(sum(r["steps"].values()) for r in runs)
            for s in "ABC"
        ]
        both, up, silent = (f"{100 * share:.0f} %" for share in shares)
        assert f"both ways {both}, up only {up}, silent {silent}" in said
    slide(tab, "threshold", 3)
    shown = {row[0]: row[1:] for row in cells(tab, "nulls")}
    assert shown.keys() == {"freeze", "BudgetGate", "BangBang", "log-spaced", "periodic"}
    told = {row[0]: row[1:] for row in cells(tab, "nothing")}
    null = pareto_report.null_runs("mnist")
    assert told.keys() == REQUIRED - WITHOUT_OWNERS
    for name, (accuracy, sent, times) in told.items():
        nbytes = mean(r["nbytes"] for r in null[name].values())
        assert accuracy == percent(mean(r["accuracy"] for r in null[name].values()), 2)
        assert sent == amount("nbytes", nbytes)
        assert float(times) == pytest.approx(nbytes / data_nbytes("mnist"), abs=0.051)
    assert "no method: the data sent once" in tab.inner_text(".legend")
    assert "send the data, 1 bit per pixel" in tab.inner_text("#plot")
    gains = [
        100 * (r["accuracy"] - next(o["accuracy"] for o in large if o["seed"] == r["seed"]))
        for r in of["equal bytes, large budget", "freeze"]
    ]
    assert shown["freeze"][2].replace("−", "-") == mean_ci(gains, "+.2f")
    assert shown["freeze"][3] == "4 of 5 seeds"
    lows = [numbers_in(row[2].partition("[")[2])[0] for row in shown.values()]
    better = sum(low > 0 for low in lows)
    verb = "is" if better == 1 else "are"
    told = f"Of 5 rules at about these bytes, {better} {verb} better by more than noise"
    assert tab.inner_text("#verdict").startswith(told)


@pytest.mark.parametrize(
    ("data", "view"), [("digits", "inputs"), ("mnist", "labels"), ("mnist", "rare")]
)
def test_leakage_shows_the_stored_runs(open_page: Open, data: str, view: str) -> None:
    parts = {
        "inputs": (leakage.UP, leakage.DEFENCES),
        "labels": (leakage.DOWN,),
        "rare": (leakage.BINARY,),
    }[view]
    task, results = leakage.TASKS[data], read(LEAKS)
    rows = [
        (s.name, list(runs.values()))
        for s, runs in leakage_rows_of(task, results)
        if s.part in parts
    ]

    def leak(run: Any) -> float:
        if view == "inputs":
            return run["explained_variance"]
        return max(run["direction_auc" if view == "labels" else "norm_auc"])

    tab = open_page("leakage", f"#data={data}&view={view}")
    shown = {row[0]: row[1:] for row in cells(tab, "all")}
    assert shown.keys() == {name for name, _ in rows}
    for name, runs in rows:
        value, ends, _, quality = shown[name]
        assert numbers_in(f"{value} {ends}") == pytest.approx(
            cut([leak(run) for run in runs], 1.0), abs=6e-4
        )
        if view == "rare":
            assert float(quality) == pytest.approx(mean(r["task_auc"] for r in runs), abs=6e-4)
        else:
            right = 100 * mean(r["accuracy"] for r in runs)
            assert float(quality.removesuffix(" %")) == pytest.approx(right, abs=0.06)


def test_the_attackers_pictures_are_the_stored_ones(open_page: Open) -> None:
    run = next(
        r
        for r in read(LEAKS).values()
        if (r["data"], r["part"], r["name"], r["seed"]) == ("mnist", leakage.UP, "2 bits", 0)
    )
    tab = open_page("leakage", "#data=mnist&setting=2+bits")
    red = tab.evaluate(
        "() => { const c = document.getElementById('guesses'); return [...c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 === 0); }"
    )
    stored = np.frombuffer(base64.b64decode(run["shown"]), np.uint8).reshape(10, 28, 28)
    wide = stored.transpose(1, 0, 2).reshape(28, 280).astype(int)  # digits side by side
    assert np.abs((255 - np.array(red)).reshape(28, 280) - wide).max() <= 8  # 16 shades


def test_codec_page_shows_what_python_measures(open_page: Open) -> None:
    table, stored = data_of("codec"), data_of("tensors")["gradient"]
    values = np.frombuffer(base64.b64decode(stored["values"]), "<f4").astype(np.float32)
    tensor = torch.from_numpy(values).reshape(stored["shape"])
    tab = open_page("codec", "#tensor=gradient")
    for bits, kept, entropy in ((1, 7, False), (4, 7, True), (8, 4, True), (32, 0, False)):
        slide(tab, "bits", table["bits"].index(bits))
        slide(tab, "kept", kept)
        tab.set_checked("#entropy", entropy)
        fraction = table["fractions"][kept]
        top, few, coder = fraction < 1, bits < 32, ContextEntropy()
        stages = [TopK(fraction)] * top + ([Quantize(bits)] if few else []) + [coder] * entropy
        report = describe_codec(tensor, Pipeline(*stages))
        shown = cells(tab, "numbers")
        assert shown[2][2] == f"{report.nbytes:,}"
        errors = [float(shown[row][1]) for row in (4, 5)]
        expected = (report.relative_error, report.largest_error)
        assert errors == pytest.approx(expected, rel=0.06)  # as many digits are shown
        assert shown[6][1] == f"{num_kept(fraction, tensor.numel()):,}"
    slide(tab, "bits", 0)
    slide(tab, "kept", 7)
    assert "worse than sending nothing" in tab.inner_text("#said")  # as the takeaway says


def test_codec_page_shows_what_attackers_found(open_page: Open) -> None:
    tab, table, seen = open_page("codec"), data_of("codec"), 0
    rows = {
        s.name: [run["explained_variance"] for run in runs.values()]
        for s, runs in leakage_rows_of(leakage.TASKS["digits"], read(LEAKS))
        if s.part == leakage.UP
    }
    for bits, fraction, name in (
        (32, 1.0, "float32"),
        (4, 1.0, "4 bits"),
        (1, 1.0, "1 bit"),
        (32, 0.1, "top-k 10%"),
        (32, 0.01, "top-k 1%"),
        (3, 0.5, ""),
    ):
        slide(tab, "bits", table["bits"].index(bits))
        slide(tab, "kept", table["fractions"].index(fraction))
        told = tab.inner_text("#leak")
        if not name:
            assert told == "not run"
            continue
        share = numbers_in(told.rpartition("%")[0])
        wanted = [100 * each for each in cut(rows[name], 1.0)]
        assert share == pytest.approx(wanted, abs=0.051)
        assert told.endswith(f"{len(rows[name])} seeds")
        seen += 1
    assert seen == 5
    tab.select_option("#tensor", "update")
    assert tab.inner_text("#leak") == "not run"


def test_advisor_page_shows_what_python_says(open_page: Open) -> None:
    tab = open_page("advisor", "#clients=500&parameters=1000000&share=0.1&epochs=1&rounds=1")
    code = tab.inner_text("#code")
    names: dict[str, Any] = {}
    exec(code.replace("advise(model", "told = advise(model"), names)
    told = names["told"]
    shown = cells(tab, "numbers")
    methods = (told.split, told.federated, told.large_batch_sgd)
    assert [row[2] for row in shown] == [amount("nbytes", m.nbytes) for m in methods]
    assert f"from {told.crossover_clients:,} clients on" in tab.inner_text("#said")
    for row, method in zip(shown, methods, strict=True):
        record = {"nbytes": method.nbytes, "num_waits": int(row[3].replace(",", ""))}
        seconds = seconds_on(record, rate=100e6 / 8, latency=0.02)  # as the sliders begin
        assert row[4] == tab.evaluate("v => explore.seconds(v)", seconds)
