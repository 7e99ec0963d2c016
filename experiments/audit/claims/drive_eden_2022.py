"""The error of few bits after a random rotation."""

import torch

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from fltoolkit.codecs import Pipeline
from fltoolkit_research.codecs import EDEN

PAPER = {1: 0.363, 2: 0.117, 3: 0.0345, 4: 0.0095}


def measure(seed: int, quick: bool) -> Values:
    """Squared error over the vector's square, for 1 to 4 bits: values far from normal."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.empty(2**12 if quick else 2**17).log_normal_(0, 1, generator=generator)
    errors = {}
    for bits in PAPER:
        codec = Pipeline(EDEN(bits, seed=seed, unbiased=False))
        decoded = codec.decode(codec.encode({"x": x}))["x"]
        errors[f"{bits} bits"] = float(((decoded - x) ** 2).sum() / (x**2).sum())
    return errors


def judge(runs: Runs) -> Finding:
    """Within 2 % of each figure."""
    found = {bits: runs.all("error", f"{bits} bits") for bits in PAPER}
    words = "; ".join(
        f"{bits} bit{'s' * (bits > 1)}: {spread(found[bits], '.4f')} against {PAPER[bits]:g}"
        for bits in PAPER
    )
    near = (rule.within([e / PAPER[bits] - 1 for e in found[bits]], 0.02) for bits in PAPER)
    return Finding(judged(rule.every(*near)), f"{words}. The same is within 2 %.")


CLAIM = Claim(
    title="DRIVE and EDEN: an error of 0.363, 0.117, 0.0345 and 0.0095 in 1 to 4 bits",
    group="codecs",
    says="After a random rotation and with the best levels for normal values, the squared error is "
    "0.363, 0.117, 0.0345 and 0.0095 of the vector's square, whatever the vector.",
    source="Vargaftik et al. 2021, arXiv 2105.08339, and 2022, arXiv 2108.08842",
    known="quoted",
    ours="131,072 log-normal values, which are far from normal; `EDEN(bits, unbiased=False)`.",
    own_task=True,
    judge=judge,
    measures={"error": measure},
    seeds=range(10, 20),
)
