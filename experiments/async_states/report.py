"""Tables of the runs that are there, as Markdown."""

from collections.abc import Sequence
from statistics import mean

from experiments.async_states.settings import BATCH_SIZE, LR, Setting
from experiments.null_rows import ALONE, WORST, megabytes, missing, times
from experiments.pareto.report import null_runs
from experiments.runs import Page, Row, Runs, accuracies, differences, factor_of, gain_of
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci

PAGE = Page(
    "async_states",
    "<!-- begin: printed by experiments.async_states --write -->",
    "<!-- end: printed -->",
)


def report(rows: Sequence[Row]) -> str:
    """All tables as Markdown."""
    if not rows:
        return "no runs yet"
    blocks = []
    for part in dict.fromkeys(setting.part for setting, _ in rows):
        mine = [row for row in rows if row[0].part == part]
        own = next((runs for setting, runs in mine if not setting.codecs), {})
        if part.startswith("equal bytes"):
            table = equal_table(mine)
        else:
            table = (clients_table if mine[0][0].clients > 1 else main_table)(mine, own)
        blocks += [f"### {part}", table + null_lines(mine, own)]
    return "\n\n".join([*blocks, effort(rows)])


def null_lines(rows: Sequence[Row], vanilla: Runs) -> str:
    """The null rows at the end of a table, as many columns as the table has.

    Their differences are to the table's own vanilla, of the seeds that both have.
    """
    first, (setting, _) = next(iter(rows[0][1].values())), rows[0]
    several, equal = setting.clients > 1, setting.part.startswith("equal bytes")
    found = null_runs(first["data"])
    lacking = missing(found, one_owner=not several)
    lines = []
    for name, runs in found.items():
        if name in (ALONE, WORST) and not several:
            continue
        nbytes = mean(result["nbytes"] for result in runs.values())
        line = f"| **{name}** | {len(runs)} | {accuracies(runs)} |"
        sent = f" {megabytes(nbytes)} | {times(nbytes, first['data'])} |"
        gains = "" if equal else f" {gain_of(runs, vanilla)} |"
        lines.append(f"{line}{gains}{sent}" + (" |" * (4 if several else 2)))
    if lacking:
        lines += ["", f"Not measured yet: {', '.join(sorted(lacking))}."]
    return "".join("\n" + line for line in lines)


def effort(rows: Sequence[Row]) -> str:
    """What was run, in one line."""
    runs = {result["key"]: result for _, results in rows for result in results.values()}.values()
    first = next(iter(runs))
    return (
        f"{len(runs)} runs: {first['data']}, {first['model']}, {first['epochs']} epochs, batch "
        f"{BATCH_SIZE}, plain SGD, lr {LR}."
    )


def baseline(rows: Sequence[Row]) -> Runs:
    """All runs of vanilla in float32 with one client: different tables have different seeds."""
    found = [runs for setting, runs in rows if setting.clients == 1 and not setting.codecs]
    return {seed: result for runs in found for seed, result in runs.items()}


def main_table(rows: Sequence[Row], reference: Runs) -> str:
    """Accuracy, what it is below vanilla on the same seeds, bytes, and who was how often awake."""
    return markdown(
        "setting | seeds | accuracy [%] | minus vanilla [points] | MB sent | times the data "
        "| times fewer | steps in A / B / C [%]",
        ([*_cells(setting, runs, reference), _shares(runs)] for setting, runs in rows),
    )


def _cells(setting: Setting, runs: Runs, reference: Runs) -> list[str]:
    """The first columns of two tables."""
    return [
        *(setting.name, _seeds(runs), accuracies(runs), gain_of(runs, reference)),
        *(_mb(runs), _times(runs), f"{factor_of(runs, reference):,.1f}"),
    ]


def equal_table(rows: Sequence[Row]) -> str:
    """Accuracy at about the same bytes, and paired differences to the loss threshold.

    Where its bytes differ between seeds by more than 2 %, `BudgetGate` stands for it.
    """
    of = {setting.family: runs for setting, runs in rows}
    name, threshold = "loss threshold", of.get("loss threshold", {})
    sizes = [result["nbytes"] for result in threshold.values()]
    if "BudgetGate" in of and (not sizes or max(sizes) > 1.02 * min(sizes)):
        name, threshold = "BudgetGate", of["BudgetGate"]
    found = []
    for setting, runs in rows:
        cells = [setting.name, _seeds(runs), accuracies(runs), _mb(runs), _times(runs)]
        gains = differences(runs, threshold)
        if runs is threshold or len(gains) < 2:
            found.append([*cells, "", ""])
        else:
            better = sum(gain > 0 for gain in gains)
            found.append([*cells, mean_ci(gains, "+.2f"), f"{better} of {len(gains)} seeds"])
    return markdown(
        f"gate | seeds | accuracy [%] | MB sent | times the data | minus {name} [points] "
        "| better on",
        found,
    )


def clients_table(rows: Sequence[Row], reference: Runs) -> str:
    """What the bytes of several clients were spent on."""
    found = []
    for setting, runs in rows:
        of = [result["nbytes_of"] for result in runs.values()]
        cells = [
            f"{sum(nbytes.get(kind, 0) for nbytes in of for kind in kinds) / len(of) / 1e6:,.1f}"
            for kinds in (("activations", "gradients"), ("model",), ("labels",))
        ]
        found.append([*_cells(setting, runs, reference), *cells])
    return markdown(
        "setting | seeds | accuracy [%] | minus vanilla [points] | MB sent | times the data "
        "| times fewer | activations + gradients [MB] | handed-on models [MB] | labels [MB]",
        found,
    )


def _seeds(runs: Runs) -> str:
    """How many there are, and which of them diverged."""
    diverged = sum("diverged" in result for result in runs.values())
    return f"{len(runs)}, {diverged} diverged" if diverged else str(len(runs))


def _mb(runs: Runs) -> str:
    """Mean, and the range where it differs between seeds."""
    sizes = [result["nbytes"] / 1e6 for result in runs.values()]
    return mean_ci(sizes, ",.1f") if max(sizes) - min(sizes) >= 0.1 else f"{mean(sizes):,.1f}"


def _times(runs: Runs) -> str:
    """The mean of the seeds, as a multiple of the compressed samples."""
    data = next(iter(runs.values()))["data"]
    return times(mean(result["nbytes"] for result in runs.values()), data)


def _shares(runs: Runs) -> str:
    """Percent of the steps in each state."""
    total = sum(sum(result["steps"].values()) for result in runs.values())
    counts = [sum(result["steps"][state] for result in runs.values()) for state in "ABC"]
    return " / ".join(f"{100 * count / total:.0f}" for count in counts)
