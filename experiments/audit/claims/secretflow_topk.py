"""What SecretFlow sends for top-k."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="SecretFlow: top-k sparsity makes messages smaller",
    group="systems",
    says="Compressors for split learning; sparsity 0.5 keeps half of the values.",
    source="SecretFlow, commit 1b51502b, secretflow_fl/utils/compressor",
    known="code",
    ours="Measured by hand in November 2026 with the commit that is named. A "
    "tensor of 128 x 512 float32, which is 262,144 bytes.",
    no_command="measured by hand with a commit that no package index has",
    judge=by_hand(
        Verdict.UNTESTED,
        "655,845 bytes at sparsity 0.5 (2.5 times larger than dense), 328,165 at 0.75, 131,547 at"
        " 0.9, 13,558 at 0.99: places travel as pickled rows and columns. It saves from about 0.8"
        " on.",
    ),
)
