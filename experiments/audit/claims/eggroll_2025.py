"""An evolution strategy whose directions have rank 1, beside one of full rank."""

from functools import partial

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from experiments.audit.measures import OF_NEWER
from experiments.newer.seeds import BATCH, EVOLUTION, OWNERS, SLOPE_ROUNDS, SLOPES, run
from experiments.newer.setting import SEEDS, Setting
from experiments.replications.zeroth_order import Directions, decomfl
from fltoolkit.federated import Local

RATE = 0.06  # of EGGROLL's six trials the best


def trained(rank: int | None, seed: int, quick: bool) -> Values:
    """From scratch, 20 pairs per step, as in the table; the rank is all that differs."""

    def train(setting, model, fleet, channel, at_home, seed):  # type: ignore[no-untyped-def]
        local, along = Local(BATCH, lr=RATE, steps=1), Directions(SLOPES, rank=rank)
        rounds = 1 if quick else SLOPE_ROUNDS
        how = {"rounds": rounds, "cohort": OWNERS, "local": local, "along": along}
        yield from decomfl(model, fleet, channel, seed=seed, **how)

    found = run(Setting("seeds", EVOLUTION), seed, train)
    return {key: float(value) for key, value in found.items()}


def judge(runs: Runs) -> Finding:
    """As good as full rank."""
    more = runs.points("rank 1", "full rank")
    words = (
        f"{spread([100 * a for a in runs.all('rank 1', 'accuracy')], '.1f')} % with rank 1, "
        f"{spread(more, '+.2f')} points from full rank with the same pairs, steps and rate. Both "
        "send the same bytes. The rate is the best of EGGROLL's six; full rank has no trial."
    )
    return Finding(judged(rule.at_least(more, -rule.POINTS)), words)


CLAIM = Claim(
    title="EGGROLL: directions of low rank are as good as full ones",
    group="federated learning",
    says="An evolution strategy whose random matrices have low rank does not fall behind one with "
    "full matrices in reinforcement learning from nothing, and is faster.",
    source="Sarkar et al. 2025, arXiv 2511.16652v1, abstract",
    known="abstract",
    quote="EGGROLL does not compromise the performance of ES in tabula-rasa RL settings, despite "
    "being faster",
    quoted_from="abstract, arXiv 2511.16652v1",
    ours="Digits from scratch, four owners, 40 steps of 20 pairs, a network of 2,410 parameters "
    "(docs/newer_methods.md). Time is not measured.",
    lacks="Reinforcement learning, populations of thousands, and the normalization of scores.",
    judge=judge,
    chosen=OF_NEWER,
    measures={"rank 1": partial(trained, 1), "full rank": partial(trained, None)},
    seeds=SEEDS,
)
