"""How many bfloat16 weights a step of training leaves as they are."""

from functools import partial

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread, times
from experiments.newer import unchanged

THEIRS, OURS = 1e-6, 3e-3


def measure(lr: float, seed: int, quick: bool) -> Values:
    """Shares in percent, bits per weight; a quick one with a model that has hardly learned."""
    same, bits = unchanged.measured(lr, seed, pretrained_steps=2 if quick else 1500)
    return {"same": same, "bits": bits}


def judge(runs: Runs) -> Finding:
    """Above 99 % at the rates of reinforcement learning; and at those that train a small model."""
    same = {name: [run["same"] for run in runs[name]] for name in runs}
    fewer = {name: [16 / run["bits"] for run in runs[name]] for name in runs}
    words = (
        f"At a learning rate of {THEIRS:g}, a step leaves {spread(same['theirs'])} % of the "
        f"bfloat16 weights as they are, and a lossless patch is {times(fewer['theirs'], '.0f')} "
        f"times shorter than all weights. At {OURS:g}, which fine-tunes this model best, it is "
        f"{spread(same['ours'])} % and {times(fewer['ours'])} times. The "
        "verdict is on the quoted sentence; a patch over 100 times shorter is not reached here."
    )
    return Finding(judged(rule.at_least(same["theirs"], 99)), words)


CLAIM = Claim(
    title="99 % of bfloat16 weights are unchanged by a step, at small learning rates",
    group="language models",
    says="In reinforcement learning of language models more than 99 % of the bfloat16 weights are "
    "the same after a step, so a patch of the others is over 100 times shorter than the model.",
    source="Miahi and Belilovsky 2026, PULSE, arXiv 2602.03839v1, abstract",
    known="abstract",
    quote="We find that update sparsity is consistently high, frequently exceeding 99% across "
    "practically relevant settings.",
    quoted_from="abstract, arXiv 2602.03839v1",
    ours="The small GPT of 111,425 weights, pretrained on Shakespeare, goes on with AdamW: "
    "prediction of the next character, no reinforcement learning. A mean of five steps after ten.",
    judge=judge,
    measures={"theirs": partial(measure, THEIRS), "ours": partial(measure, OURS)},
    seeds=range(10, 15),
)
