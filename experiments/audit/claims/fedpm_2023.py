"""Less than a bit a parameter."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="FedPM: less than one bit a parameter",
    group="federated learning",
    says="Clients train which weights of a random network are kept, and send a mask: below one bit "
    "a parameter on the way up.",
    source="Isik et al. 2023, ICLR, arXiv 2209.15328, abstract",
    known="abstract",
    ours="not in the package",
    judge=untested(
        "Training masks instead of weights is not built. Its probabilities travel down as floats."
    ),
)
