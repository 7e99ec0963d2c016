"""A factor that is arithmetic."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="Covenant-72B: more than 146 times less",
    group="language models",
    says="Top-k in chunks with 12-bit places and 2-bit values: more than 146 times less for a "
    "model of 72 billion parameters.",
    source="Covenant-72B 2026, arXiv 2603.08163, abstract",
    known="abstract",
    quote="We developed SparseLoCo, which compresses gradient communication by over 146x. Each "
    "peer transmits 1.56% of a full gradient per round using top-k sparsification, 2-bit "
    "quantization, and error feedback.",
    quoted_from="an author, Hacker News, item 47335107",
    ours="32 x 4096 / (64 x (12 + 2)) is 146.3: the factor is that of the codec, against float32,"
    " on the way up.",
    no_command="the model is too large for any machine here",
    judge=untested(
        "A model of that size needs hundreds of graphics cards. Twenty peers download what each "
        "of them sends."
    ),
)
