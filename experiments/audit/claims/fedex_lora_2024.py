"""The mean of products of LoRA's factors, beside the product of their means."""

from functools import partial

from experiments.audit import rule, stored
from experiments.audit.claim import Claim, Finding, Runs, judged, spread, times
from experiments.audit.measures import OF_NEWER
from experiments.newer.seeds import EXACT, FACTORS, FINE_TUNED
from experiments.newer.setting import SEEDS


def judge(runs: Runs) -> Finding:
    """Better than averaging the factors."""
    gains = runs.points(EXACT, FACTORS)
    more = times([1 / factor for factor in runs.fewer(EXACT, FACTORS)])
    words = (
        f"{spread(gains, '+.2f')} points from averaging the factors one by one, for {more} times "
        "the bytes of that, with four clients: each gets the factors of all. Averaging all weights "
        f"in float32 would send {times(runs.fewer(EXACT, 'FedAvg'))} times as many."
    )
    return Finding(judged(rule.at_least(gains, 0.0)), words)


CLAIM = Claim(
    title="FedEx-LoRA: an exact mean of adapters is better",
    group="federated learning",
    says="The mean of the products of factors, which is added to the frozen weights, gives "
    "consistent gains over averaging the factors, with little more communication.",
    source="Singhal et al. 2024, arXiv 2410.09432, abstract",
    known="abstract",
    quote="We evaluate the method on various models across arithmetic reasoning, commonsense "
    "reasoning, natural language understanding and natural language generation tasks, showing "
    "consistent performance gains over state-of-the-art methods across multiple settings.",
    quoted_from="abstract, arXiv 2410.09432",
    ours="From MNIST to digits, four owners with equal shares, LoRA of rank 2 in a network of "
    "2,410 parameters (docs/newer_methods.md). The paper tunes language models.",
    judge=judge,
    chosen=OF_NEWER,
    measures={n: partial(stored.newer, FINE_TUNED, n) for n in (EXACT, FACTORS, "FedAvg")},
    seeds=SEEDS,
)
