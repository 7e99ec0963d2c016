"""Rounds of federated averaging on Shakespeare."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="Federated averaging: Shakespeare's roles are learned in 41 rounds",
    group="federated learning",
    says="A character LSTM reaches 54 % in 41 rounds by role (95 times fewer than FedSGD), and in "
    "192 with clients alike (13 times).",
    source="McMahan et al. 2017, arXiv 1602.05629, table 2",
    known="memory",
    ours="nothing yet",
    judge=untested(
        "Their data set is LEAF's, with 1,146 roles; ours is a small excerpt, and an LSTM of "
        "866,578 "
        "parameters takes hours a run on two processor cores."
    ),
)
