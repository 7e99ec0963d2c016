"""Each owner alone, where owners differ."""

from functools import partial

from experiments.audit import rule, stored
from experiments.audit.claim import Claim, Finding, Runs, judged, spread
from experiments.audit.measures import OF_NEWER
from experiments.newer.owners import OWNERS_DIFFER
from experiments.newer.setting import SEEDS
from experiments.null_rows import ALONE

TOGETHER = ("FedAvg", "SCAFFOLD", "FedDyn", "FedPer, last layer at home", "Ditto")


def judge(runs: Runs) -> Finding:
    """Better than one model for all; and the personal methods beside it."""
    gains = {name: runs.points(ALONE, name) for name in TOGETHER}
    listed = ", ".join(f"{name} {spread(each, '+.2f')}" for name, each in gains.items())
    words = f"An owner alone, minus the method, in points: {listed}. It sends nothing."
    right = (rule.at_least(gains[name], 0.0) for name in TOGETHER[:2])
    return Finding(judged(rule.every(*right)), words)


CLAIM = Claim(
    title="PFLlib: each owner alone is best where owners differ",
    group="federated learning",
    says="On MNIST, training alone has a higher accuracy than FedAvg, FedProx and SCAFFOLD.",
    source="PFLlib, https://github.com/TsingZ0/PFLlib/issues/243, July 2025",
    known="read",
    quote="When we tested Local, FedProx, FedAvg, and SCAFFOLD on the MNIST dataset, using all the "
    "framework's default hyperparameters, we observed that Local mode achieved the highest "
    "test_acc (0.991) with the fewest communication rounds.",
    quoted_from="a user, TsingZ0/PFLlib, issue 243, July 2025",
    ours="Digits, twenty owners with two shards of sorted samples, an owner's accuracy on test "
    "images distributed as its own classes are (docs/newer_methods.md). FedProx was not run.",
    judge=judge,
    chosen=OF_NEWER,
    measures={name: partial(stored.newer, OWNERS_DIFFER, name) for name in (ALONE, *TOGETHER)},
    seeds=SEEDS,
)
