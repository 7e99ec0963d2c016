"""Parts of the model in turn, in four bits."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, on_seeds, spread, times
from experiments.audit.measures import language

EVERY, DILOCO = "AdamW, every step, float32", "DiLoCo, H = 10, float32"
STREAMING = "Streaming DiLoCo, 2 x 5 steps, 4-bit floats"
STORED = language(EVERY, DILOCO, STREAMING)


def judge(runs: Runs) -> Finding:
    """As good as DiLoCo."""
    more = runs.nats(STREAMING, DILOCO)
    words = (
        f"{spread(more, '+.3f')} nats per character above DiLoCo, {on_seeds(runs)}. The factors "
        f"are against a message at every step; DiLoCo has {times(runs.fewer(DILOCO, EVERY))}. "
        "The claim is about the peak of the bandwidth, which a sum of bytes does not show."
    )
    verdict = judged(rule.at_most(more, rule.NATS))
    factors = (times(runs.fewer(STREAMING, EVERY, key)) for key in ("nbytes_up", "nbytes"))
    return Finding(verdict, words, *factors)


CLAIM = Claim(
    title="Streaming DiLoCo: parts in turn and in 4 bits, at the quality of DiLoCo",
    group="language models",
    says="Parts of the model are exchanged in turn, while computing goes on, in 4-bit floats: the "
    "quality of DiLoCo with two orders of magnitude less peak bandwidth.",
    source="Douillard et al. 2025, arXiv 2501.18512, abstract",
    known="abstract",
    quote="First, we synchronize only subsets of parameters in sequence, rather than all at once, "
    "which greatly reduces peak bandwidth. Second, we allow workers to continue training while "
    "synchronizing, which decreases wall clock time. Third, we quantize the data exchanged by "
    "workers, which further reduces bandwidth across workers.",
    quoted_from="abstract, arXiv 2501.18512",
    ours="Two parts, 5 steps each, 4 workers, on Shakespeare, 600 steps "
    "(docs/language_results.md).",
    judge=judge,
    version=2,
    **STORED,
)
