"""Forty times less on the way up under secure aggregation."""

from functools import partial

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread, times
from experiments.replications.shared_places import SharedMask
from experiments.secrecy.run import run
from experiments.secrecy.settings import TASKS, Setting, grid

FRACTION, SECRET = 0.085, "2 bits of 8.5 % of the values, secret"


def measure(seed: int, quick: bool, *, secret: bool) -> Values:
    """One run of FedAvg with ten clients: float32 in the clear, or few values under masks."""
    task = TASKS["digits" if quick else "mnist"]
    codec = grid(task, 2, SharedMask(FRACTION)) if secret else None
    found = run(task, Setting("", 10, codec, secret=secret, gone=0.0), seed)
    per_run = task.rounds * 10
    return {
        "accuracy": found["accuracy"],
        "nbytes": float(found["nbytes"]),
        "nbytes_up": per_run * sum(found["up"].values()),
    }


def judge(runs: Runs) -> Finding:
    """Without their coder it is another method; what ours does is reported."""
    up, total = (runs.fewer(SECRET, "float32", key) for key in ("nbytes_up", "nbytes"))
    words = (
        "Their pruning and their product quantization with Secure Indexing are not built here. "
        f"Random places in 2 bits cost {spread(runs.points(SECRET, 'float32'), '+.2f')} points at "
        "the same factor, which says nothing about theirs. The model goes down in float32."
    )
    return Finding(Verdict.UNTESTED, words, times(up), times(total))


CLAIM = Claim(
    title="40 times less on the way up, under secure aggregation",
    group="federated learning",
    says='"up to 40x compression in uplink communication with no meaningful loss in utility '
    'compared to uncompressed baselines", with quantization, pruning and Secure Indexing.',
    source="Prasad, Ghosh, Cormode, Mironov, Yousefpour & Stock 2022, arXiv 2207.12779, abstract "
    "(https://openreview.net/forum?id=GUMLIArCIwB)",
    known="abstract",
    quote="up to 40x compression in uplink communication with no meaningful loss in utility "
    "compared to uncompressed baselines",
    quoted_from="abstract, arXiv 2207.12779",
    ours="MNIST, ten clients alike, 12 rounds of 15 steps, a network of 25,450 parameters; values "
    "at random places that all clients draw alike, rotated, in 2 bits, under masks of 5 bits. "
    "Theirs are LEAF's tasks. Keys and shares count here.",
    judge=judge,
    measures={
        "float32": partial(measure, secret=False),
        SECRET: partial(measure, secret=True),
    },
    seeds=range(10, 15),
)
