"""More levels as training goes on."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="DAdaQuant: 4,772 times less on the way up",
    group="federated learning",
    says="Doubling the levels when the loss stops falling, and fewer levels for small clients: "
    "4,772 times less than float32 on the way up (FEMNIST).",
    source="Hönig et al. 2021, arXiv 2111.00465, table 2",
    known="quoted",
    ours="Not in the package. Its base, one level behind a lossless coder, is the claim above.",
    judge=untested(
        "The doubling rule and the rule by client are not built. The bytes down, which all such "
        "methods leave alone, would cap the total at two times."
    ),
)
