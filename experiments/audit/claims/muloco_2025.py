"""Muon inside of DiLoCo."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="MuLoCo: 8 times less than DiLoCo with AdamW",
    group="language models",
    says="With Muon inside, outer gradients can be sent in 2 bits, at the loss of DiLoCo with "
    "AdamW and 8 times less communication.",
    source="Thérien et al. 2025, arXiv 2505.23725, abstract",
    known="abstract",
    ours="`experiments.language` names a setting; the plain mean of Muon in 2 bits is measured "
    "there.",
    judge=untested("The setting with momentum outside has not been run."),
)
