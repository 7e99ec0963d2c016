"""The budget of FlowerTune."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="FlowerTune: a budget of 200,000 MB, both ways",
    group="systems",
    says="Communication is limited to 200,000 MB in both directions.",
    source="Flower, examples/flowertune, strategy.py",
    known="code",
    ours="Read in the source in November 2026, not run.",
    judge=by_hand(
        Verdict.UNTESTED,
        "Sizes of tensors are added up, in both directions; headers and encoding are not part of "
        "it, and there is no codec. For float32 tensors that is nearly what is sent.",
    ),
)
