"""The tables, as Markdown, from the runs that are there."""

from collections.abc import Mapping
from statistics import mean

from experiments.newer.setting import CHOICE_SEEDS, Group
from experiments.null_rows import ALONE, megabytes, times
from experiments.runs import DOCS, Result, Row, Runs, gain_of, rows_of, share_ci, write_between
from experiments.tables import markdown

PAGE = DOCS / "newer_methods.md"


def table(group: Group, results: Mapping[str, Result]) -> str:
    """A row for each method: bytes, scores, and the paired difference from the reference."""
    rows = rows_of(None, group.settings(results), results)
    if not rows:
        raise SystemExit(
            f"{group.name}: no run has one of the seeds {', '.join(map(str, group.seeds))}; run "
            "the command without --report and --write first"
        )
    first, second = (
        next((runs for setting, runs in rows if setting.name == name), {})
        for name in (group.reference, group.second)
    )
    heads = [*group.scores.values()]
    words = "an owner alone" if group.second == ALONE else group.second
    lines = markdown(
        f"method | MB sent | times the data | {' | '.join(heads)} | {heads[0].split(' [')[0]}, "
        f"minus {group.reference} | minus {words} | chosen",
        (line(group, row, first, second) for row in rows),
    )
    return "\n\n".join([f"### {group.title}", lines, effort(group, rows)])


def line(group: Group, row: Row, first: Runs, second: Runs) -> list[str]:
    """One row."""
    setting, runs = row
    sent = mean(run["nbytes"] for run in runs.values())
    cells = [megabytes(sent), times(sent, group.data)]
    for score in group.scores:
        cells.append(share_ci([100 * run[score] for run in runs.values() if score in run]))
    for name, other in ((group.reference, first), (group.second, second)):
        own = setting.name == name
        cells.append("" if own else gain_of(runs, other, key=next(iter(group.scores))))
    cells.append(", ".join(f"{name} {value:g}" for name, value in setting.options.items()))
    name = setting.name if setting.name in group.methods else f"**{setting.name}**"
    return [name, *cells]


def effort(group: Group, rows: list[Row]) -> str:
    """What was run."""
    seconds = sum(run["seconds"] for _, runs in rows for run in runs.values())
    numbers = {len(grid) for grid in group.grids.values()}
    trials = f"{max(numbers)} stored trials" if len(numbers) == 1 else f"{sorted(numbers)} trials"
    seeds = sorted({seed for _, runs in rows for seed in runs})
    return (
        f"Means and 95 % intervals of Student's t over the seeds {seeds[0]} to {seeds[-1]}, which "
        f"decide first weights, batches and who has what; {trials} of each method on the seeds "
        f"{CHOICE_SEEDS[0]} and {CHOICE_SEEDS[1]}. {seconds / 60:.1f} CPU minutes."
    )


def write(groups: Mapping[str, Group], results: Mapping[str, Result]) -> None:
    """Put each table between its two marks on the page."""
    for group in groups.values():
        begin, end = (f"<!-- {group.name}: {word} -->" for word in ("begin", "end"))
        write_between(PAGE, begin, end, table(group, results).split("\n\n", 1)[1])
