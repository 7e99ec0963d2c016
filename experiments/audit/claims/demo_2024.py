"""The largest cosines of the momentum."""

from statistics import mean

from experiments.audit.claim import Claim, Finding, Runs, Verdict, on_seeds, spread, times, untested
from experiments.audit.measures import language

EVERY, DEMO = "AdamW, every step, float32", "DeMo, 1 of 32 cosines"
STORED = language(EVERY, DEMO)


def judge(runs: Runs) -> Finding:
    """A hundred times less or more, within 0.02 nats of AdamW with a message at every step."""
    more = runs.nats(DEMO, EVERY)
    up, total = (runs.fewer(DEMO, EVERY, key) for key in ("nbytes_up", "nbytes"))
    words = (
        f"{spread(more, '+.3f')} nats per character above AdamW with a message at every step in "
        f"float32, {on_seeds(runs)}. One cosine of 32 is kept of each tensor, in 16 bits, and goes "
        "from each worker to all others."
    )
    if mean(more) > 0.02 or min(up) < 100:
        verdict = Verdict.ELSEWHERE
    else:
        verdict = Verdict.REPRODUCED if min(total) >= 100 else Verdict.UPLINK_ONLY
    return Finding(verdict, words, times(up), times(total))


CLAIM = Claim(
    title="DeMo: several orders of magnitude less between accelerators",
    group="language models",
    says="Momentum stays with each worker, and only its fast parts, by a cosine transform, are "
    "exchanged: several orders of magnitude less, at the loss of AdamW or below.",
    source="Peng et al. 2024, arXiv 2411.19870, abstract",
    known="abstract",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 600 steps "
    "(docs/language_results.md). Several orders means 100 times or more here. "
    "`fltoolkit.federated.demo` keeps cosines of each tensor, the paper of each chunk.",
    judge=judge if STORED["seeds"] else untested("The setting has not been run."),
    **STORED,
)
