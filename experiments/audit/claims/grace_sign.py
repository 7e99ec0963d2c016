"""One bit of GRACE."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="GRACE: sign, ternary and one-bit compressors",
    group="systems",
    says="Compressors named after one bit and three values per value. The paper describes a step "
    "that packs them; a maintainer says that the release leaves it out.",
    source="GRACE, commit 106e3de, grace_dl/torch/compressor",
    known="code",
    quote="We've currently excluded this functionality from this code release because we could not "
    "create an efficient implementation purely based on the TF API.",
    quoted_from="a maintainer on packing bits, sands-lab/grace, issue 3, June 2020",
    ours="Measured by hand in November 2026 and read again in the commit that is named. "
    "tests/core/codecs/test_other_systems.py holds the trap.",
    no_command="measured by hand with a commit that no package index has",
    judge=by_hand(
        Verdict.UNTESTED,
        "8 bits per value: a tensor of bytes is what is sent, a quarter of float32. Packed, "
        "which the release leaves out and says so, it would be a thirty-second.",
    ),
)
