"""Rounds of federated averaging, the 2NN with two shards of sorted samples per client."""

from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread
from experiments.audit.measures import fedavg

PAPER = 664


def judge(runs: Runs) -> Finding:
    """As few rounds, or fewer."""
    rounds = runs.all("float32", "rounds")
    words = f"{spread(rounds, '.0f')} rounds against {PAPER}."
    reached = min(rounds) > 0 and max(rounds) <= PAPER
    return Finding(Verdict.REPRODUCED if reached else Verdict.ELSEWHERE, words)


CLAIM = Claim(
    title="Federated averaging: 664 rounds to 97 % on MNIST, clients unlike",
    group="federated learning",
    says="The same with two shards of sorted samples per client: 664 rounds to 97 %.",
    source="McMahan et al. 2017, arXiv 1602.05629, table 1, in a conversion to text",
    known="read",
    ours="The same network, split and settings on MNIST (docs/fedavg_results.md).",
    judge=judge,
    measures={"float32": fedavg("two shards a client", "float32", 0.97)},
)
