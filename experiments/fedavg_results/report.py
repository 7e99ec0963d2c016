"""Tables of the runs that are there, as Markdown."""

from collections.abc import Callable, Iterator, Sequence
from statistics import mean

from experiments.fedavg_results.null_rows import null_rows
from experiments.fedavg_results.settings import BATCH_SIZE, COHORT, LAST
from experiments.null_rows import megabytes as as_megabytes
from experiments.null_rows import times
from experiments.runs import Page, Result, Row, Runs, accuracies, factor_of, gain_of
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci

PAGE = Page("fedavg_results", "<!-- what the report prints, from here -->", "<!-- to here -->")


def report(rows: Sequence[Row]) -> str:
    """All tables as Markdown."""
    if not rows:
        return "no runs yet"
    blocks = []
    for part in dict.fromkeys(setting.part for setting, _ in rows):
        mine = [row for row in rows if row[0].part == part]
        plain = all(not setting.codecs for setting, _ in mine)
        table = rounds_table(mine) if plain else bytes_table(mine, float32(rows, mine))
        blocks += [f"### {part}", table]
    if confirmed := [row for row in rows if row[0].part == "IID"]:
        blocks += ["\n".join(pairs(confirmed))]
    return "\n\n".join([*blocks, effort(rows)])


PAIRS = (
    ("top-k 1 % + EF", "top-k 1 %"),
    ("STC 1 % + EF", "top-k 1 % + EF"),
    ("DGC 1 %", "top-k 1 %"),
    ("DGC 1 %", "top-k 1 % + EF"),
)
"""Codecs of updates that the page compares, both with 8 bits down."""


def pairs(rows: Sequence[Row]) -> Iterator[str]:
    """What one codec of updates gains over another, paired by seed."""
    found = {setting.name: runs for setting, runs in rows}
    for names in PAIRS:
        one, two = (found.get(f"{name} up, 8 bits down", {}) for name in names)
        if one and two:
            yield f"- {names[0]} in place of {names[1]}, IID: {gain_of(one, two)} points"


def float32(rows: Sequence[Row], mine: Sequence[Row]) -> Runs:
    """The uncompressed runs that a table's rows are compared with: all else equal, same seeds."""
    like = mine[0][0]
    same = ("split", "lr", "rounds", "model")
    found: Runs = {}
    for setting, runs in rows:
        if not setting.codecs and all(getattr(setting, s) == getattr(like, s) for s in same):
            found |= runs
    return found


def rounds_table(rows: Sequence[Row]) -> str:
    """Without compression: rounds to the accuracies, first time that a round ends there."""
    goals = (0.9, 0.97) if rows[0][0].model == "2nn" else (0.97, 0.99)
    heads = " | ".join(f"rounds to {100 * goal:.0f} %" for goal in goals)
    found = []
    for setting, runs in rows:
        cells = [_reached(runs, goal, lambda curve, n: n + 1, ".0f") for goal in goals]
        length = len(next(iter(runs.values()))["curve"])
        more = [accuracies(runs), length, _times(runs), _listed(runs)]
        found.append([setting.name, *cells, *more])
    head = f"setting | {heads} | accuracy [%] | after rounds | times the data | seeds"
    return markdown(head, found)


def bytes_table(rows: Sequence[Row], reference: Runs) -> str:
    """Accuracy, what it is below float32 on the same seeds, bytes each way and to two goals."""

    def megabytes(curve: list, n: int) -> float:
        return (curve[n][0] + curve[n][1]) / 1e6

    found = []
    for setting, runs in rows:
        of = {seed: reference[seed] for seed in runs if seed in reference}
        up, down = (
            mean(run[key] for run in runs.values()) / 1e6 for key in ("nbytes_up", "nbytes_down")
        )
        found.append(
            [
                *(setting.name, accuracies(runs), gain_of(runs, of) if setting.codecs else ""),
                *(f"{up:,.1f}", f"{down:,.1f}"),
                f"{_bits(runs, 'nbytes_up')}, {_bits(runs, 'nbytes_down')}",
                *(_times(runs), f"{factor_of(runs, of):.1f}"),
                *(_reached(runs, share, megabytes, ",.1f") for share in (0.9, 0.97)),
                *(_reached(runs, 0.97, lambda _, n: n + 1, ".0f"), _listed(runs)),
            ]
        )
    for setting, runs in null_rows(rows[0][0].split):  # sent once: no bytes to a goal on the way
        up, down = (mean(run[key] for run in runs.values()) for key in ("nbytes_up", "nbytes_down"))
        gain, factor = gain_of(runs, reference), times(up + down, "mnist")
        cells = [f"**{setting.name}**", accuracies(runs), gain, as_megabytes(up)]
        found.append([*cells, as_megabytes(down), "", factor, "", "", "", "", _listed(runs)])
    return markdown(
        "setting | accuracy [%] | minus float32 [points] | MB up | MB down "
        "| bits per value up, down | times the data | times fewer | MB to 90 % "
        "| MB to 97 % | rounds to 97 % | seeds",
        found,
    )


def effort(rows: Sequence[Row]) -> str:
    """What was run, in one line."""
    runs = {result["key"]: result for _, results in rows for result in results.values()}
    first = next(iter(runs.values()))
    return (
        f"{len(runs)} runs: {first['data']}, {first['clients']} clients, a tenth of them in a "
        f"round, batch {BATCH_SIZE}; accuracy on the test set, mean of the last {LAST} rounds."
    )


def _reached(runs: Runs, accuracy: float, what: Callable[[list, int], float], form: str) -> str:
    """``what`` at the first round of that accuracy; and how many seeds never got there."""
    first = [
        next((n for n, point in enumerate(run["curve"]) if point[2] >= accuracy), None)
        for run in runs.values()
    ]
    found = [
        what(run["curve"], n) for run, n in zip(runs.values(), first, strict=True) if n is not None
    ]
    if not found:
        return "never"
    missing = len(runs) - len(found)
    words = mean_ci(found, form)
    return f"{words}, {missing} of {len(runs)} never" if missing else words


def _bits(runs: Runs, key: str) -> str:
    """Bits per parameter in an average message."""

    def bits(run: Result) -> float:
        num_messages = len(run["curve"]) * max(1, round(COHORT * run["clients"]))
        return 8 * run[key] / num_messages / run["num_parameters"]

    return f"{mean(map(bits, runs.values())):.2f}"


def _times(runs: Runs) -> str:
    """Bytes in both directions, as a multiple of the compressed samples."""
    first = next(iter(runs.values()))
    return times(mean(run["nbytes"] for run in runs.values()), first["data"])


def _listed(runs: Runs) -> str:
    return ", ".join(map(str, sorted(runs)))
