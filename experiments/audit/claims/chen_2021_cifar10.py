"""Asynchronous states on the paper's own images."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="The same on CIFAR-10 with the paper's networks",
    group="split learning",
    says="1.64 to 106.7 times less communication within 0.5 %, VGG-11, VGG-13, ResNet-18.",
    source="Chen, Li & Chakrabarti 2021, arXiv 2107.09786, abstract",
    known="abstract",
    ours="`python -m experiments.async_states --data cifar10` trains VGG-11 for it.",
    judge=untested(
        "An epoch of VGG-11 takes about ten minutes on two processor cores, and 200 epochs of "
        "eight settings with three seeds need a graphics card, which we have not had."
    ),
)
