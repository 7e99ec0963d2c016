"""Many steps of AdamW between two messages, and Nesterov's momentum outside."""

from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread, times
from experiments.audit.measures import language

EVERY, ALONE = "AdamW, every step, float32", "AdamW, one worker alone"
DILOCO, MEAN = "DiLoCo, H = 10, float32", "local AdamW, H = 10, mean, 4 bits"


def above(runs: Runs, name: str, reference: str) -> list[float]:
    """Nats above the reference, seed by seed."""
    return [points / 100 for points in runs.points(name, reference, "nats")]


def judge(runs: Runs) -> Finding:
    """As good is within 0.02 nats."""
    more = above(runs, DILOCO, EVERY)
    words = (
        f"{spread(more, '+.3f')} nats a character above a message at every step; a worker alone, "
        f"which sends nothing, is {spread(above(runs, ALONE, EVERY), '+.3f')} above it, and the "
        f"plain mean of the same steps in 4 bits {spread(above(runs, MEAN, EVERY), '+.3f')}. One "
        "seed, 600 steps from scratch, which is far from the paper's regime."
    )
    good = max(more) <= 0.02
    factors = times(runs.fewer(DILOCO, EVERY))
    return Finding(Verdict.REPRODUCED if good else Verdict.ELSEWHERE, words, factors, factors)


CLAIM = Claim(
    title="DiLoCo: as good as a message at every step, for 500 times less communication",
    group="language models",
    says="With 8 workers on C4, 500 local steps of AdamW and Nesterov's momentum outside train as "
    "well as full synchrony, and communicate 500 times less.",
    source="Douillard et al. 2023, arXiv 2311.08105, abstract",
    known="abstract",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 10 local steps "
    "(docs/language_results.md). Fewer local steps should make it easier.",
    judge=judge,
    measures={name: language(name) for name in (EVERY, ALONE, DILOCO, MEAN)},
    seeds=(10,),
)
