"""Orthonormal steps whose messages are narrow matrices."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, on_seeds, spread, times
from experiments.audit.measures import language

EVERY, MUON = "AdamW, every step, float32", "Muon, every step, float32"
DION, POWER = "Dion, rank 4, 8 bits", "PowerSGD, rank 4, 8 bits, AdamW"
STORED = language(EVERY, MUON, DION, POWER)


def judge(runs: Runs) -> Finding:
    """As good as Muon, whose matrices travel whole."""
    more, factors = runs.nats(DION, MUON), runs.fewer(DION, MUON)
    words = (
        f"{spread(more, '+.3f')} nats per character against Muon with whole matrices in float32, "
        f"{spread(runs.nats(DION, EVERY), '+.3f')} against AdamW, {on_seeds(runs)}; PowerSGD with "
        f"the same rank and bits has {spread(runs.nats(POWER, EVERY), '+.3f')}. A test of the "
        "package holds the other half of the sentence: narrow means give the steps of the whole "
        "mean gradient."
    )
    verdict = judged(rule.at_most(more, rule.NATS))
    return Finding(verdict, words, times(factors), times(factors))


CLAIM = Claim(
    title="Dion: orthonormal steps without sending whole matrices",
    group="language models",
    says="Orthonormal updates of low rank need no full gradients, give numerically the same, and "
    "balance quality with cost.",
    source="Ahn et al. 2025, arXiv 2504.05295v2 and v3, abstracts, and microsoft/dion",
    known="abstract",
    quote="The rank-fraction parameter with error feedback enables low-rank updates that balance "
    "quality with significant cost savings.",
    quoted_from="abstract, arXiv 2504.05295v3; version 2 also said: “eliminating the need for full "
    "gradient synchronization while producing numerically equivalent results”",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 600 steps, rank 4 of 64, "
    "8 bits both ways (docs/language_results.md).",
    lacks="A learning rate of its own: it has Muon's, without a trial.",
    judge=judge,
    **STORED,
)
