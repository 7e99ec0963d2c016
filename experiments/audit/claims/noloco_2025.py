"""A random partner in place of an all-reduce."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, on_seeds, spread, times
from experiments.audit.measures import language

EVERY, DILOCO = "AdamW, every step, float32", "DiLoCo, H = 10, float32"
MEAN, PAIRS = "local AdamW, H = 10, mean, float32", "NoLoCo, H = 10, pairs, float32"
STORED = language(EVERY, DILOCO, MEAN, PAIRS)


def judge(runs: Runs) -> Finding:
    """Half of DiLoCo's bytes, which is what pairs save, and as good as it."""
    more, factors = runs.nats(PAIRS, DILOCO), runs.fewer(PAIRS, DILOCO)
    words = (
        f"{times(factors)} times fewer bytes than DiLoCo through a server, at "
        f"{spread(more, '+.3f')} nats per character, {on_seeds(runs)}: partners exchange weights, "
        "where a server sends as much back as it gets. A plain mean of all workers has "
        f"{spread(runs.nats(MEAN, DILOCO), '+.3f')} against DiLoCo. The factors of the table are "
        "those against DiLoCo. The claim is also about waiting, which bytes do not show."
    )
    verdict = judged(rule.at_most(more, rule.NATS), rule.saves(factors, 2))
    return Finding(verdict, words, "", times(factors))


CLAIM = Claim(
    title="NoLoCo: less communication than DiLoCo, without an all-reduce",
    group="language models",
    says="Workers that average with a random partner only need significantly less communication "
    "than DiLoCo, and converge as fast.",
    source="Kolehmainen et al. 2025, arXiv 2506.10911, abstract and the code of an author",
    known="abstract",
    quote="Our method requires significantly less communication overhead than fully sharded data "
    "parallel training or even widely used low communication training method, DiLoCo.",
    quoted_from="abstract, arXiv 2506.10911v1",
    ours="A transformer of 111,425 parameters on Shakespeare, 4 workers, 600 steps, 10 between "
    "messages, the authors' outer rate 0.7 and momentum 0.5 (docs/language_results.md). The model "
    "that is tested is one worker's. Theirs sends weights and updates, ours their sum: half of it.",
    judge=judge,
    **STORED,
)
