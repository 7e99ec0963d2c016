"""The sentences of README that hold measured numbers, made from stored results.

    python -m experiments.readme    # prints each of them; a test finds them in README.md

In brackets stands the 95 % interval of the mean by Student's t, of differences that are paired by
seed. "Times the data" are the bytes sent, divided by the training samples compressed without loss.
"""

from collections.abc import Iterator
from statistics import mean

from experiments.async_states import __main__ as silence
from experiments.async_states import report as silence_report
from experiments.async_states import settings as silence_settings
from experiments.fedavg_results import __main__ as averaging
from experiments.fedavg_results import settings as averaging_settings
from experiments.language import data_parallel, null_results, split
from experiments.language import report as language_report
from experiments.language.__main__ import RESULTS as LANGUAGE
from experiments.language.task import Task as LanguageTask
from experiments.null_rows import ALONE, ONE_BIT, data_nbytes
from experiments.pareto import report as pareto_report
from experiments.runs import Runs, differences, factor_of, mean_nbytes, nats_above, read, rows_of
from fltoolkit.research import mean_ci

__all__ = ["phrases"]

LONGER = "Muon, H = 10, 2 bits, 1,800 steps"
LONGEST = "Muon, H = 65, 2 bits, 5,400 steps"


def phrases() -> Iterator[str]:
    """Each phrase as README has it, apart from line breaks and stars."""
    yield from first_screen()
    yield from split_images()
    yield from averaged_images()
    yield from language()
    yield from cut_text()
    yield from one_axis()


def short(value: float) -> str:
    """Two digits, or all of a whole number."""
    return f"{value:,.0f}" if value >= 10 else f"{float(f'{value:.2g}'):g}"


def times(runs: Runs, data: float) -> str:
    """Times the data, of the mean of the seeds."""
    return short(mean_nbytes(runs) / data)


def first_screen() -> Iterator[str]:
    """What the data take, and what they bring."""
    one_bit = pareto_report.null_runs("mnist")[ONE_BIT]
    megabytes = f"{mean_nbytes(one_bit) / 1e6:.1f} MB"
    yield f"{data_nbytes('mnist') / 1e6:.1f} MB without loss and {megabytes} in one bit per pixel"
    right = 100 * mean(run["accuracy"] for run in one_bit.values())
    yield f"from these {megabytes} one party learns {right:.1f} %"


def split_images() -> Iterator[str]:
    """Split learning with few bits and a byte budget."""
    task = silence_settings.Task()
    rows = rows_of(task, silence_settings.settings(task), read(silence.RESULTS))
    runs = {setting.name: runs for setting, runs in rows}["few bits, BudgetGate, 1/105"]
    vanilla = silence_report.baseline(rows)
    vanilla = {seed: run for seed, run in vanilla.items() if seed in runs}
    points = mean_ci(differences(runs, vanilla), "+.2f")
    factor = f"{factor_of(runs, vanilla):.0f} times fewer bytes at {points} points"
    yield f"{factor}, {times(runs, data_nbytes('mnist'))} times the data"


def averaged_images() -> Iterator[str]:
    """Federated averaging in 3 bits."""
    task = averaging_settings.Task()
    rows = rows_of(task, averaging_settings.settings(), read(averaging.RESULTS))
    for part, way in (("IID", ", both directions counted,"), ("two shards a client", "")):
        mine = {setting.name: runs for setting, runs in rows if setting.part == part}
        reference = mine[averaging_settings.FLOAT32]
        runs = mine["3 bits + EF up, differences in 3 bits down"]
        points = mean_ci(differences(runs, reference), "+.2f")
        factor = f"{factor_of(runs, reference):.0f} times fewer bytes{way} at {points} points"
        yield f"{factor}, {times(runs, data_nbytes('mnist'))} times the data"


def language() -> Iterator[str]:
    """Four workers, one text."""
    task = LanguageTask()
    rows = rows_of(task, data_parallel.settings(task), read(LANGUAGE))
    found = {setting.name: (setting, runs) for setting, runs in rows}
    for name, way in ((LONGER, " fewer bytes, both directions counted,"), (LONGEST, ",")):
        setting, runs = found[name]
        adamw, own = language_report.references(setting, rows)
        above = mean_ci(nats_above(runs, own), ".3f")
        yield f"{factor_of(runs, adamw):,.0f} times{way} {above} nats above the same optimizer"
        factor = float(language_report.times_the_data(runs).replace(",", ""))
        yield f"{short(factor)} times the data"
        below = nats_above(adamw, runs)
        if name == LONGER:
            yield f"{mean_ci(below, '.3f')} below AdamW"


def cut_text() -> Iterator[str]:
    """A transformer in two parts; the data are the windows that it learns from."""
    stored = read(LANGUAGE.with_name("language_split.jsonl"))
    for title, name in (("tune", split.TUNED), ("scratch", split.FRESH)):
        task = split.TASKS[title]
        found = {s.name: runs for s, runs in rows_of(task, split.settings(task), stored)}
        runs, reference = found[name], found["float32"]
        nats = mean_ci(nats_above(runs, reference), "+.3f")
        data = mean(null_results.data_nbytes("split", title).values())
        size = f"{mean_nbytes(runs) / 1e6:.1f} MB, {times(runs, data)} times the data"
        yield f"{factor_of(runs, reference):.1f} times at {nats} nats ({size})"


def one_axis() -> Iterator[str]:
    """Split or federated, by accuracy, MB and times the data."""
    results = pareto_report.parts_of(pareto_report.read_kept())["mnist", "IID"]
    found: dict[str, list[dict[str, float]]] = {}
    for r in results:
        last = {key: r.history[-1][key] for key in ("accuracy", "nbytes")}
        found.setdefault(r.experiment.name, []).append(last)

    def words(name: str) -> tuple[str, str, str]:
        right, sent = (mean(run[key] for run in found[name]) for key in ("accuracy", "nbytes"))
        size = f"{sent / 1e6:,.1f}" if sent < 5e6 else f"{sent / 1e6:,.0f}"
        return f"{100 * right:.1f} %", f"{size} MB", short(sent / data_nbytes("mnist"))

    right, size, factor = words("3 bits + EF both ways")
    yield f"{right} for {size} ({factor} times the data)"
    for name, baseline in (
        ("STC 1 % both ways", pareto_report.BASELINE_FEDERATED),
        ("delta-coded cache, 2 bits", pareto_report.BASELINE_SPLIT),
    ):
        (right, size, factor), (_, whole, most) = words(name), words(baseline)
        yield f"{right} for {size} ({factor}; float32: {whole}, {most})"
    yield f"{words(ALONE)[0]} for nothing"
    yield f"{words('STC 1 %')[2]} times the data on MNIST"


def main() -> None:
    """Print them."""
    for phrase in phrases():
        print(phrase)


if __name__ == "__main__":
    main()
