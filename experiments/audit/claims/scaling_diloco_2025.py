"""Whether DiLoCo is better than a message at every step where models are small."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, on_seeds, spread
from experiments.audit.measures import language

EVERY, DILOCO = "AdamW, every step, float32", "DiLoCo, H = 10, float32"
STORED = language(EVERY, DILOCO)


def judge(runs: Runs) -> Finding:
    """Better, by any margin."""
    more = runs.nats(DILOCO, EVERY)
    words = (
        f"{spread(more, '+.3f')} nats per character above a message at every step, "
        f"{on_seeds(runs)}. Their smallest model has 35 million parameters, ours has 111,425."
    )
    return Finding(judged(rule.at_most(more, 0.0)), words)


CLAIM = Claim(
    title="DiLoCo can be better than a message at every step, even at small sizes",
    group="language models",
    says="When it is well tuned, DiLoCo scales better with the size of the model than data "
    "parallel training, and can outperform it even at small sizes.",
    source="Charles et al. 2025, arXiv 2503.09799, abstract",
    known="abstract",
    quote="When well-tuned, DiLoCo scales better than data-parallel training with model size, and "
    "can outperform data-parallel training even at small model sizes.",
    quoted_from="abstract, arXiv 2503.09799",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 10 local steps, 600 steps "
    "(docs/language_results.md). How it grows with the model cannot be tested here.",
    lacks="The tuning on which the sentence depends: four trials of the learning rate for each of "
    "the two found the rates used here, but the outer rate, its momentum and the number of local "
    "steps have no trials.",
    judge=judge,
    **STORED,
)
