"""The null rows of this page: the samples sent to one place, owners alone, nothing.

    python -m experiments.fedavg_results.null_rows   # runs what is missing

The network is the 2NN, and the receiver takes as many steps as all clients together: with a tenth
of them in a round and one local pass, 100 rounds are ten passes over all samples. Of the 100 owners
the first ten are trained alone. Results are lines of ``experiments/results/fedavg_null.jsonl``.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.fedavg_results.settings import BATCH_SIZE, SEEDS, Setting
from experiments.null_rows import (
    COMMONEST,
    ONE_BIT,
    REQUIRED,
    SEND,
    UNTRAINED,
    WITHOUT_OWNERS,
    bits,
    sent_in,
)
from experiments.pareto.report import all_owners, keep, null_runs, read_kept
from experiments.runs import Row, Runs
from fltoolkit.research import Experiment, Result, run

KEPT = Path(__file__).parents[1] / "results" / "fedavg_null.jsonl"
PARTITIONS = {"iid": "iid", "shards": "shards(2)"}  # by the word of a setting
PASSES, OWNERS = 10, 10


def experiments(split: str) -> Iterator[Experiment]:
    """All runs of one partition, the samples sent first: those are the same for all partitions."""
    base = Experiment(
        "pooled",
        data="mnist",
        model="mcmahan_2nn()",
        num_clients=100,
        rounds=PASSES,
        lr=0.1,
        batch_size=BATCH_SIZE,
    )
    for seed in SEEDS:
        mine = replace(base, seed=seed)
        if split == "iid":
            yield replace(mine, name=ONE_BIT, codecs=bits(1))
            yield replace(mine, name=SEND, codecs=sent_in())
        mine = replace(mine, partition=PARTITIONS[split])
        nothing = replace(mine, protocol="nothing", rounds=1)
        yield replace(nothing, name=UNTRAINED)
        yield replace(nothing, name=COMMONEST, settings={"commonest": True})
        for owner in range(1, OWNERS + 1):
            settings = {"owner": owner}
            yield replace(mine, protocol="alone", name=f"owner {owner}", settings=settings)


OTHER = " (network of results.md)"


def null_rows(split: str) -> list[Row]:
    """The rows as this page's tables take them: a setting without codecs, and its runs by seed.

    What was not run with the 2NN yet is taken from results.md, with a mark: another small network,
    ten owners, 15 passes; there are no such rows of single owners with two shards each.
    """
    own = measured(split)
    there = {setting.name for setting, _ in own}
    for name, runs in null_runs("mnist").items():
        if name in REQUIRED - there and (split == "iid" or name not in WITHOUT_OWNERS):
            found = {
                seed: {**run, "nbytes_up": run["nbytes"], "nbytes_down": 0}
                for seed, run in runs.items()
            }
            own.append((Setting("null rows", name + OTHER), found))
    return own


def measured(split: str) -> list[Row]:
    """The rows of the 2NN."""
    found: dict[str, Runs] = {}
    partitions = {PARTITIONS[split], PARTITIONS["iid"]}
    results = [r for r in read_kept(KEPT) if r.experiment.partition in partitions]
    own = [r for r in results if r.experiment.partition == PARTITIONS[split]]
    sent = [r for r in results if r.experiment.protocol == "pooled"]
    nothing = [r for r in own if r.experiment.protocol == "nothing"]
    for result in (*sent, *nothing, *all_owners(own, OWNERS)):
        e = result.experiment
        found.setdefault(e.name, {})[e.seed] = as_run(result)
    return [(Setting("null rows", name), runs) for name, runs in found.items()]


def as_run(result: Result) -> dict[str, Any]:
    """What a table reads of a run."""
    curve, last = result.history, result.history[-1]
    return {
        **{key: last[key] for key in ("accuracy", "nbytes", "nbytes_up", "nbytes_down")},
        "curve": [[r["nbytes"], 0, r["accuracy"]] for r in curve],
    }


def main() -> None:
    """Run what is missing, and add it to the file."""
    there = {r.experiment.key: r for r in read_kept(KEPT)}
    for split in PARTITIONS:
        for e in experiments(split):
            if e.key not in there:
                there[e.key] = Result(e, *timed(e))
                keep(there.values(), KEPT)
                last = there[e.key].history[-1]
                print(f"{e.name:40s} seed {e.seed} {last['accuracy']:.4f} {last['nbytes']:,} bytes")


def timed(experiment: Experiment) -> tuple[Any, str, float]:
    """The rest of a `Result`: records, no error, seconds."""
    from time import perf_counter

    start = perf_counter()
    history = run(experiment)
    return history, "", perf_counter() - start


if __name__ == "__main__":
    main()
