"""Moments of the optimizer averaged less often than weights."""

from experiments.audit.claim import Claim, Finding, Runs, Verdict, on_seeds, spread, times, untested
from experiments.audit.measures import language

KEPT = "local AdamW, H = 10, mean, float32"
DES_LOC = "DES-LOC, H = 10, moments every 30 and 60, float32"
STORED = language(KEPT, DES_LOC)


def judge(runs: Runs) -> Finding:
    """Its opponent, Local Adam, has not been run; moments that stay at home have."""
    more, factors = runs.nats(DES_LOC, KEPT), runs.fewer(KEPT, DES_LOC)
    words = (
        f"Local Adam waits for computing time. Moments that never travel cost {times(factors)} "
        f"times fewer bytes than DES-LOC, which ends at {spread(more, '+.3f')} nats per character "
        f"against them, {on_seeds(runs)}."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="DES-LOC: half of Local Adam's communication",
    group="language models",
    says="Averaging the first moments every third time and the second moments every sixth halves "
    "what Local Adam sends, at its loss.",
    source="Iacob et al. 2025, arXiv 2505.22549, abstract; the periods as others quote them",
    known="abstract",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 600 steps, 10 between "
    "messages (docs/language_results.md).",
    judge=judge if STORED["seeds"] else untested("The settings have not been run."),
    **STORED,
)
