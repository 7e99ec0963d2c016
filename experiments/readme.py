"""README's table, and the headlines at the end of docs/results.md, made from stored results.

    python -m experiments.readme            # prints both; tests find them in README and on the page
    python -m experiments.readme --write    # puts the table into README

In brackets stands the 95 % interval of the mean by Student's t, of differences that are paired by
seed. "Times the data" are the bytes sent, divided by the training samples compressed without loss.
"""

import argparse
from collections.abc import Iterable, Iterator
from math import hypot
from statistics import mean

from experiments import fresh
from experiments import runs as bench
from experiments.async_states import __main__ as silence
from experiments.async_states import report as silence_report
from experiments.async_states import settings as silence_settings
from experiments.fedavg_results import __main__ as averaging
from experiments.fedavg_results import settings as averaging_settings
from experiments.fresh import README_ROWS, README_TABLE
from experiments.language import data_parallel, null_results, split
from experiments.language import report as language_report
from experiments.language.__main__ import RESULTS as LANGUAGE
from experiments.language.task import Task as LanguageTask
from experiments.leakage import settings as leakage
from experiments.leakage.__main__ import RESULTS as LEAKS
from experiments.leakage.report import rows_of as leakage_rows_of
from experiments.null_rows import ALONE, ONE_BIT, data_nbytes, megabytes
from experiments.null_rows import times as times_cell
from experiments.pareto import report as pareto_report
from experiments.tables import markdown
from fltoolkit_research.intervals import interval, mean_ci

README = bench.DOCS.parent / "README.md"
BEGIN, END = "<!-- begin: printed by experiments.readme --write -->", "<!-- end: printed -->"
LONGER = "Muon, H = 10, 2 bits, 1,800 steps"
LONGEST = "Muon, H = 65, 2 bits, 5,400 steps"


def phrases() -> Iterator[str]:
    """Each phrase as docs/results.md has it, apart from line breaks and stars."""
    yield from first_screen()
    yield from reconstructed()
    yield from split_images()
    yield from averaged_images()
    yield from language()
    yield from cut_text()
    yield from one_axis()


def short(value: float) -> str:
    """Two digits, or all of a whole number."""
    return f"{value:,.0f}" if value >= 10 else f"{float(f'{value:.2g}'):g}"


def times(runs: bench.Runs, data: float) -> str:
    """Times the data, of the mean of the seeds."""
    return short(bench.mean_nbytes(runs) / data)


def first_screen() -> Iterator[str]:
    """What the data take, and what they bring."""
    one_bit = pareto_report.null_runs("mnist")[ONE_BIT]
    megabytes = f"{bench.mean_nbytes(one_bit) / 1e6:.1f} MB"
    yield f"{data_nbytes('mnist') / 1e6:.1f} MB without loss and {megabytes} in one bit per pixel"
    right = 100 * mean(run["accuracy"] for run in one_bit.values())
    yield f"from these {megabytes} one party learns {right:.1f} %"


def reconstructed() -> Iterator[str]:
    """What an attacker explains of the images behind 8-bit activations, and behind float32."""
    for data, of, words in (
        ("digits", "of the images' variance ", "on 8 x 8 digits"),
        ("mnist", "", "on MNIST"),
    ):
        rows = leakage_rows_of(leakage.TASKS[data], bench.read(LEAKS))
        found = {s.name: runs for s, runs in rows if s.part in (leakage.UP, leakage.PRIOR)}
        few, mean_image, nearest = (
            f"{mean(100 * run['explained_variance'] for run in found[name].values()):.0f} %"
            for name in ("8 bits", leakage.CLASS_MEAN, leakage.NEAREST)
        )
        yield f"{few} {of}{words}"
        yield f"{mean_image} and {nearest} {words}"
        change = bench.differences(found["8 bits"], found["float32"], "explained_variance")
        yield f"{mean_ci(change, '+.2f')} points {words}"


def split_images() -> Iterator[str]:
    """Split learning with few bits and a byte budget."""
    task = silence_settings.Task()
    rows = bench.rows_of(task, silence_settings.settings(task), bench.read(silence.RESULTS))
    runs = {setting.name: runs for setting, runs in rows}["few bits, BudgetGate, 1/105"]
    vanilla = silence_report.baseline(rows)
    vanilla = {seed: run for seed, run in vanilla.items() if seed in runs}
    points = mean_ci(bench.differences(runs, vanilla), "+.2f")
    factor = f"{bench.factor_of(runs, vanilla):.0f} times fewer bytes at {points} points"
    yield f"{factor}, {times(runs, data_nbytes('mnist'))} times the data"


def averaged_images() -> Iterator[str]:
    """Federated averaging in 3 bits."""
    task = averaging_settings.Task()
    rows = bench.rows_of(task, averaging_settings.settings(), bench.read(averaging.RESULTS))
    for part, way in (("IID", ", both directions counted,"), ("two shards per client", "")):
        mine = {setting.name: runs for setting, runs in rows if setting.part == part}
        reference = mine[averaging_settings.FLOAT32]
        runs = mine["3 bits + EF up, differences in 3 bits down"]
        points = mean_ci(bench.differences(runs, reference), "+.2f")
        factor = f"{bench.factor_of(runs, reference):.0f} times fewer bytes{way} at {points} points"
        yield f"{factor}, {times(runs, data_nbytes('mnist'))} times the data"


def language() -> Iterator[str]:
    """Four workers, one text."""
    task = LanguageTask()
    rows = bench.rows_of(task, data_parallel.settings(task), bench.read(LANGUAGE))
    found = {setting.name: (setting, runs) for setting, runs in rows}
    for name, way in ((LONGER, " fewer bytes, both directions counted,"), (LONGEST, ",")):
        setting, runs = found[name]
        adamw, own = language_report.references(setting, rows)
        above = mean_ci(bench.nats_above(runs, own), ".3f")
        factor = bench.factor_of(runs, adamw)
        yield f"{factor:,.0f} times{way} {above} nats above the same optimizer"
        factor = float(language_report.times_the_data(runs).replace(",", ""))
        yield f"{short(factor)} times the data"
        if name == LONGER:
            yield f"{mean_ci(bench.nats_above(adamw, runs), '.3f')} below AdamW"
        else:
            yield f"{mean_ci(bench.nats_above(runs, adamw), '+.3f')} nats from AdamW"
            half = found[language_report.HALF_RATE][1]
            yield f"{mean_ci(bench.nats_above(runs, half), '+.3f')} from AdamW at half its rate"


def cut_text() -> Iterator[str]:
    """A transformer in two parts; the data are the windows that it learns from."""
    stored = bench.read(LANGUAGE.with_name("language_split.jsonl"))
    for title, name in (("tune", split.TUNED), ("scratch", split.FRESH)):
        task = split.TASKS[title]
        found = {s.name: runs for s, runs in bench.rows_of(task, split.settings(task), stored)}
        runs, reference = found[name], found["float32"]
        nats = mean_ci(bench.nats_above(runs, reference), "+.3f")
        data = mean(null_results.data_nbytes("split", title).values())
        size = f"{bench.mean_nbytes(runs) / 1e6:.1f} MB, {times(runs, data)} times the data"
        yield f"{bench.factor_of(runs, reference):.1f} times at {nats} nats ({size})"
        coded = mean_ci(bench.differences(runs, reference, "nats_coded", 1.0), "+.3f")
        yield f"{coded} if the cut is coded in use, too"


def one_axis() -> Iterator[str]:
    """Split or federated, by accuracy, MB and times the data."""
    results = pareto_report.parts_of(pareto_report.read_kept())["mnist", "IID"]
    found = pareto_report.ends_of(results)
    few, cache, stc = "3 bits + EF both ways", "delta-coded cache, 2 bits", "STC 1 %"
    float32 = pareto_report.settings.BASELINE_FEDERATED

    def words(name: str) -> tuple[str, str, str]:
        each = found[name].values()
        right, sent = (mean(run[key] for run in each) for key in ("accuracy", "nbytes"))
        size = f"{sent / 1e6:,.1f}" if sent < 5e6 else f"{sent / 1e6:,.0f}"
        return f"{100 * right:.1f} %", f"{size} MB", short(sent / data_nbytes("mnist"))

    for name, baseline in (
        (few, float32),
        (f"{stc} both ways", float32),
        (cache, pareto_report.settings.BASELINE_SPLIT),
    ):
        (right, size, factor), (_, whole, most) = words(name), words(baseline)
        gain = mean_ci(bench.differences(found[name], found[baseline]), "+.2f")
        times_words = f"{factor} times the data; {gain} points from float32"
        yield f"{right} for {size} ({times_words}, which sends {whole}, {most} times the data)"
    gain = mean_ci(bench.differences(found[few], found[cache]), "+.2f")
    yield f"{gain} points from split to federated"
    yield f"{words(ALONE)[0]} for nothing"
    up = (mean(run["nbytes_up"] for run in found[name].values()) for name in (float32, stc))
    yield f"An uplink {next(up) / next(up):.0f} times smaller"
    yield f"{words(stc)[2]} times the data on MNIST"


def table() -> str:
    """README's table: what ten owners of MNIST can do, the cheapest first in each half."""
    found = pareto_report.ends_of(pareto_report.parts_of(pareto_report.read_kept())[README_TABLE])
    again, lines = fresh.again(*README_TABLE), []
    for name, words in README_ROWS.items():
        sent = bench.mean_nbytes(found[name])
        new = bench.accuracies(again[name]) if name in again else ""
        cells = [words, bench.accuracies(found[name]), new, megabytes(sent)]
        lines.append([*cells, times_cell(sent, README_TABLE[0])])
    rows = markdown("what | accuracy [%] | on fresh seeds [%] | MB sent | times the data", lines)
    return rows + "\n\n" + with_test_draw((found[name] for name in README_ROWS), 10_000)


def with_test_draw(rows: Iterable[bench.Runs], num_images: int) -> str:
    """How wide intervals are that cover seeds and, as a binomial, the draw of the test images."""
    halves = []
    for runs in rows:
        found = interval([run["accuracy"] for run in runs.values()])
        drawn = 1.96 * (found.mean * (1 - found.mean) / num_images) ** 0.5
        halves.append(100 * hypot(found.high - found.mean, drawn))
    wide = f"±{min(halves):.2f} to ±{max(halves):.2f}"
    return f"The intervals are over seeds; with {num_images:,} other test images they are {wide}."


def main() -> None:
    """Print table and sentences, or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into README")
    if parser.parse_args().write:
        bench.write_between(README, BEGIN, END, table())
        return
    print(table(), *phrases(), sep="\n")


if __name__ == "__main__":
    main()
