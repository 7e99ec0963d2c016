"""A few random values of the model, averaged after every step."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, on_seeds, spread, times
from experiments.audit.measures import language

EVERY, DILOCO = "AdamW, every step, float32", "DiLoCo, H = 10, float32"
ALONE = "AdamW, one worker alone"
SPARTA = "SPARTA, 0.5 % of the values at every step, float32"
STORED = language(EVERY, DILOCO, ALONE, SPARTA)


def judge(runs: Runs) -> Finding:
    """Fewer bytes than DiLoCo, and as good as it."""
    more, factors = runs.nats(SPARTA, DILOCO), runs.fewer(SPARTA, DILOCO)
    words = (
        f"{times(factors)} times fewer bytes than DiLoCo with 10 steps between messages, at "
        f"{spread(more, '+.3f')} nats per character, {on_seeds(runs)}. A worker alone, which "
        f"sends nothing, has {spread(runs.nats(ALONE, DILOCO), '+.3f')}. The factors of the table "
        "are those against DiLoCo; DiLoCo with more steps between messages was not compared."
    )
    verdict = judged(rule.at_most(more, rule.NATS), rule.saves(factors, 1, share=1))
    return Finding(verdict, words, times(factors), times(factors))


CLAIM = Claim(
    title="SPARTA: fewer bytes than DiLoCo, by random values at every step",
    group="language models",
    says="Averaging a small random part of the parameters after each step outperforms DiLoCo in "
    "bandwidth.",
    source="Beton et al. 2025, openreview.net/forum?id=stFPf3gzq1, as its abstract stands on the "
    "page of an author, and exo-explore/gym",
    known="abstract",
    quote="Our experiments demonstrate that SPARTA outperforms state-of-the-art federated learning "
    "methods such as DiLoCo in both bandwidth efficiency and practical robustness.",
    quoted_from="abstract, as it stands on the page of an author, mattreed.com",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 600 steps, 0.5 % of the "
    "values, as in exo-gym (docs/language_results.md). The model that is tested is one worker's. "
    "The places are drawn from a shared seed and cost nothing.",
    judge=judge,
    **STORED,
)
