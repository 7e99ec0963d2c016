"""The tables, as Markdown, from the runs that are there."""

from collections.abc import Mapping, Sequence
from statistics import mean

from experiments.leakage.settings import CLASS_MEAN, NEAREST
from experiments.runs import Result, Row, accuracies, rows_of
from experiments.secrecy.attack import SEEN
from experiments.secrecy.noise import noise_table
from experiments.secrecy.settings import TASKS, Task, settings
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci
from fltoolkit_research.secrecy import ROUNDS


def report(results: Mapping[str, Result]) -> str:
    """All tables."""
    blocks = []
    for task in TASKS.values():
        rows = rows_of(task, settings(task), results)
        for count in sorted({setting.num_clients for setting, _ in rows}):
            mine = [row for row in rows if row[0].num_clients == count]
            blocks += [f"### {task.data}, {count} clients", table(mine), equal(task, mine, results)]
    attacks = [r for r in results.values() if r.get("what") in ("attack", "before")]
    if attacks:
        blocks += ["### What an attacker reconstructs", attack_table(attacks)]
    if noisy := [r for r in results.values() if r.get("what") == "noise"]:
        blocks += ["### Accuracy, bytes and epsilon", noise_table(noisy)]
    return "\n\n".join(block for block in blocks if block) or "no runs yet"


def table(rows: Sequence[Row]) -> str:
    """A row for each setting: accuracy, kB up by kind and down, seconds of processor time."""
    found = []
    for setting, runs in rows:
        result = runs[min(runs)]
        up, down = result["up"], result["down"]
        whole = sum(up.values())
        found.append(
            [
                *(setting.name, accuracies(runs)),
                *(kilobytes(up.get(kind, 0)) for kind in ("update", *ROUNDS)),
                *(kilobytes(whole), kilobytes(sum(down.values()))),
                f"{8 * whole / result['num_values']:.1f}",
                seconds_of([r["cpu_seconds"] for r in runs.values()]),
            ]
        )
    return markdown(
        "updates | accuracy % | kB up: update | keys | shares | masked | unmasking | kB up, all "
        "| kB down | bits up per value | CPU s per round",
        found,
    )


def equal(task: Task, rows: Sequence[Row], results: Mapping[str, Result]) -> str:
    """In how many pairs of runs the secret weights are those of the clear run, bit by bit."""
    pairs = [
        (runs[seed]["weights"], results[clear.key(task, seed)]["weights"])
        for setting, runs in rows
        if setting.secret
        for clear, _ in rows
        if not clear.secret and clear.codec == setting.codec
        for seed in runs
        if clear.key(task, seed) in results
    ]
    same = sum(a == b for a, b in pairs)
    return (
        f"Secret runs whose weights are those of the clear run, to the bit: {same} of {len(pairs)}."
    )


def attack_table(attacks: Sequence[Result]) -> str:
    """Explained variance of the image, by bits and by what the server sees."""
    known = [a["found"] for a in attacks if a["what"] == "before"]
    found: list[list[object]] = [
        [name, *[mean_ci([each[name] for each in known], ".3f")] * len(SEEN)]
        for name in (CLASS_MEAN, NEAREST)
    ]
    for bits in sorted({a["bits"] for a in attacks if "bits" in a}, reverse=True):
        mine = [a["found"] for a in attacks if a.get("bits") == bits]
        found.append([bits, *(mean_ci([each[what] for each in mine], ".3f") for what in SEEN)])
    return markdown(f"bits | {' | '.join(SEEN)}", found)


def kilobytes(nbytes: float) -> str:
    """In kB of 1,000 bytes."""
    return f"{nbytes / 1000:.2f}" if nbytes else ""


def seconds_of(values: Sequence[float | None]) -> str:
    """The mean, or nothing."""
    there = [value for value in values if value is not None]
    return f"{mean(there):.2f}" if there else ""
