"""Rounds of federated averaging, the 2NN with clients alike."""

from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread
from experiments.audit.measures import fedavg

PAPER = 87


def judge(runs: Runs) -> Finding:
    """Fewer rounds than the paper's, for reasons that we do not know, are no agreement."""
    rounds = runs.all("float32", "rounds")
    words = (
        f"{spread(rounds, '.0f')} rounds here at a rate of 0.1, where the paper has {PAPER} "
        "with the best of many rates. With pixels from 0 to 1, in place of standardized "
        "ones, it took 42, on one seed; where the rest comes from we do not know. So ours is not "
        "the paper's setting. "
        "The quoted sentence compares with FedSGD (1,474 rounds in the same table), which we did "
        "not run."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="Federated averaging: 87 rounds to 97 % on MNIST, clients alike",
    group="federated learning",
    says="2NN, 100 clients, a tenth in a round, one epoch, batch 10: 87 rounds to 97 %.",
    source="McMahan et al. 2017, arXiv 1602.05629, table 1, read in a conversion to text",
    known="read",
    quote="Communication costs are the principal constraint, and we show a reduction in required "
    "communication rounds by 10–100× as compared to synchronized stochastic gradient descent.",
    quoted_from="abstract, arXiv 1602.05629; the rounds of this claim are figures of a table",
    ours="The same network, split and settings on MNIST (docs/fedavg_results.md).",
    judge=judge,
    chosen="The rate, as the best of 3 trials on seed 10 and the test images.",
    measures={"float32": fedavg("IID", "float32", 0.97)},
)
