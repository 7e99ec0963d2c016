"""Rounds of federated averaging on Shakespeare."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="Federated averaging: Shakespeare's roles are learned in 41 rounds",
    group="federated learning",
    says="A character LSTM reaches 54 % in 41 rounds by role (95.3 times fewer than FedSGD) and in "
    "192 with clients alike (13.0 times), with five local epochs; with one epoch it is 164 and "
    "460 rounds.",
    source="McMahan et al. 2017, arXiv 1602.05629, table 2, in a conversion to text",
    known="read",
    ours="nothing yet",
    judge=untested(
        "Their data set has 1,146 roles and 3.6 million characters; ours is an excerpt of 1.1 "
        "million, and an LSTM of 866,578 parameters takes hours a run on two processor cores."
    ),
)
