"""Unbiased few bits without a rotation at the receiver."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="QUIC-FL: the error of EDEN, and much faster to decode",
    group="codecs",
    says="An unbiased mean of few bits a value whose error falls with the number of clients, at a "
    "lower cost of decoding than DRIVE and EDEN.",
    source="Ben-Basat et al. 2022, arXiv 2205.13341, abstract",
    known="memory",
    ours="not in the package",
    judge=untested("The codec is not built: its levels come from a solver that we do not have."),
)
