"""Rounds of federated averaging, the CNN."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, spread
from experiments.audit.measures import fedavg

PAPER = 20


def judge(runs: Runs) -> Finding:
    """As few rounds, or fewer, up to a fifth."""
    rounds = runs.all("float32", "rounds")
    words = (
        f"{spread(rounds, '.0f')} rounds against {PAPER}. One seed answers no question: a run "
        "takes an hour here."
    )
    return Finding(judged(rule.at_most(rounds, 1.2 * PAPER)), words)


CLAIM = Claim(
    title="Federated averaging: the CNN reaches 99 % in 20 rounds",
    group="federated learning",
    says="CNN, 100 clients alike, a tenth in a round, five epochs, batch 10: 20 rounds to 99 %.",
    source="McMahan et al. 2017, arXiv 1602.05629, table 2, in a conversion to text",
    known="read",
    quote="Communication costs are the principal constraint, and we show a reduction in required "
    "communication rounds by 10–100× as compared to synchronized stochastic gradient descent.",
    quoted_from="abstract, arXiv 1602.05629; the rounds of this claim are figures of a table",
    ours="The same on MNIST, one seed: a run takes an hour (docs/fedavg_results.md).",
    judge=judge,
    measures={"float32": fedavg("CNN", "float32", 0.99)},
    seeds=(0,),
)
