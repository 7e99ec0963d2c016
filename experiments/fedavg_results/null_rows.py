"""The null rows of this page: the samples sent to one place, owners alone, nothing.

    python -m experiments.fedavg_results.null_rows   # runs what is missing

The network is the 2NN, and the receiver takes as many steps as all clients together: with a tenth
of them in a round and one local pass, 100 rounds are ten passes over all samples. Of the 100 owners
the first ten are trained alone. Results are lines of ``experiments/results/fedavg_null.jsonl``.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

from experiments.fedavg_results.settings import BATCH_SIZE, SEEDS, Setting
from experiments.null_rows import COMMONEST, ONE_BIT, SEND, UNTRAINED, bits, sent_in
from experiments.pareto.report import all_owners, read_kept, thin
from experiments.runs import STORED, Row, Runs
from fltoolkit_research import Experiment, Result, Store, run

KEPT = STORED / "fedavg_null.jsonl"
PARTITIONS = {"iid": "iid", "shards": "shards(2)"}  # by the word of a setting
PASSES, OWNERS = 10, 10
LONGER = {"rounds": 20, "batch_size": 64, "optimizer": "AdamW(lr=0.002)", "lr": Experiment.lr}
"""How a receiver trains that computes as much as it likes, as in results.md."""


def experiments(split: str, seeds: Sequence[int] = SEEDS) -> Iterator[Experiment]:
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
    for seed in seeds:
        mine = replace(base, seed=seed)
        if split == "iid":
            yield replace(mine, name=ONE_BIT, codecs=bits(1))
            yield replace(mine, name=SEND, codecs=sent_in())
            yield replace(
                mine,
                name=f"{ONE_BIT}, trained longer",
                codecs=bits(1),
                settings={"decay": True},
                **LONGER,
            )
        mine = replace(mine, partition=PARTITIONS[split])
        nothing = replace(mine, protocol="nothing", rounds=1)
        yield replace(nothing, name=UNTRAINED)
        yield replace(nothing, name=COMMONEST, settings={"commonest": True})
        for owner in range(1, OWNERS + 1):
            settings = {"owner": owner}
            yield replace(mine, protocol="alone", name=f"owner {owner}", settings=settings)


def null_rows(split: str) -> list[Row]:
    """The rows as this page's tables take them: a setting without codecs, and its runs by seed."""
    found: dict[str, Runs] = {}
    for result in results(split):
        e, last = result.experiment, result.history[-1]
        run = {key: last[key] for key in ("accuracy", "nbytes", "nbytes_up", "nbytes_down")}
        run["curve"] = [[r["nbytes"], 0, r["accuracy"]] for r in result.history]
        found.setdefault(e.name, {})[e.seed] = run
    return [(Setting("null rows", name), runs) for name, runs in found.items()]


def results(split: str) -> list[Result]:
    """What is there of one partition; owners are two results a seed: their mean, and the worst."""
    kept = read_kept(KEPT)
    own = [r for r in kept if r.experiment.partition == PARTITIONS[split]]
    sent = [r for r in kept if r.experiment.protocol.name == "pooled"]
    nothing = [r for r in own if r.experiment.protocol.name == "nothing"]
    return [*sent, *nothing, *all_owners(own, OWNERS)]


def main() -> None:
    """Run what is missing, and add it to the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    args = parser.parse_args()
    there = {result.experiment.key for result in read_kept(KEPT)}
    for split in PARTITIONS:
        for e in experiments(split, args.seeds):
            if e.key not in there:
                there.add(e.key)
                start = perf_counter()
                result = thin(Result(e, run(e), "", perf_counter() - start))
                Store(KEPT).add(result)
                last = result.history[-1]
                print(f"{e.name:40s} seed {e.seed} {last['accuracy']:.4f} {last['nbytes']:,} bytes")


if __name__ == "__main__":
    main()
