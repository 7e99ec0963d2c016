"""SCAFFOLD beside averaging, per byte."""

from functools import partial

from experiments.audit import rule, stored
from experiments.audit.claim import Claim, Finding, Runs, judged, spread, times
from experiments.audit.measures import OF_NEWER
from experiments.newer.owners import OWNERS_DIFFER
from experiments.newer.setting import SEEDS


def judge(runs: Runs) -> Finding:
    """As good as each other; that noise hides a difference is not enough."""
    gains = runs.points("SCAFFOLD", "FedAvg")
    more = times([1 / factor for factor in runs.fewer("SCAFFOLD", "FedAvg")])
    words = (
        f"{spread(gains, '+.2f')} points of the owners' accuracy, for {more} times the bytes: a "
        "control variate travels with each model, both ways. About the same is within half a point."
    )
    return Finding(judged(rule.within(gains, rule.POINTS)), words)


CLAIM = Claim(
    title="FL-bench: SCAFFOLD is not significantly better than averaging",
    group="federated learning",
    says="With owners who differ, FedAvg, FedProx and SCAFFOLD reach about the same accuracy.",
    source="FL-bench, https://github.com/KarhouTam/FL-bench/issues/150, January 2025",
    known="read",
    quote="However, for CIFAR-10, the performance of the three algorithms is not significantly "
    "different. According to the Scaffold paper, Scaffold should perform better than FedAvg and "
    "FedProx in non-IID settings.",
    quoted_from="a user, KarhouTam/FL-bench, issue 150, January 2025",
    ours="Digits, twenty owners with two shards of sorted samples "
    "(docs/newer_methods.md). Theirs is CIFAR-10 with Dirichlet parts. FedProx was not run.",
    judge=judge,
    chosen=OF_NEWER,
    measures={name: partial(stored.newer, OWNERS_DIFFER, name) for name in ("FedAvg", "SCAFFOLD")},
    seeds=SEEDS,
)
