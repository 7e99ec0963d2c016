"""Noise that is added twice."""

import torch

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, times

NODES, SIGMA, CLIP, NUM_VALUES = 10, 1.0, 1.0, 100_000


def measure(seed: int, quick: bool) -> Values:
    """The noise of an averaged model: drawn at the nodes, and once more at the researcher."""
    generator = torch.Generator().manual_seed(seed)
    scale = SIGMA / NODES**0.5 * CLIP  # as its tutorial sets it

    def after_training(params: torch.Tensor) -> torch.Tensor:
        return params + scale * torch.randn(params.shape, generator=generator)

    nothing = torch.zeros(NUM_VALUES)
    mean = torch.stack([after_training(nothing) for _ in range(NODES)]).mean(0)
    return {"nodes": float(mean.std()), "both": float(after_training(mean).std())}


def judge(runs: Runs) -> Finding:
    """The system was read, not run; what its two additions of noise make is reported."""
    more = [run["both"] / run["nodes"] for run in runs["ten nodes"]]
    words = (
        "Fed-BioMed was read, not run. In the code, after_training_params adds the noise of "
        "central privacy at each node (round.py, line 552) and again to the averaged model of the "
        "researcher (_experiment.py, line 857): with ten nodes the model has "
        f"{times(more, '.2f')} times the noise of the nodes' mean. "
        "The issue also says that the clip is no global norm but per parameter; that we did "
        "not find: the one clip in the code is Opacus' norm of a sample's gradient, and the final "
        "local model, which gets the noise, is not clipped at all."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="Fed-BioMed: central privacy adds its noise twice",
    group="systems",
    says="With central differential privacy, noise is added after local training, and once more "
    "after aggregation.",
    source="Fed-BioMed, https://github.com/fedbiomed/fedbiomed/issues/1443, September 2025; code "
    "at commit 60d6192c, July 2026",
    known="read",
    quote="when using CDP, noise is added both after local training and central aggregation (via "
    "calling of `after_training_params()` which calls `_postprocess_dp`)",
    quoted_from="a maintainer, fedbiomed/fedbiomed, issue 1443, September 2025",
    ours="Its two additions of noise, repeated on 100,000 values that are 0, with ten nodes and "
    "the tutorial's sigma / sqrt(nodes). Fed-BioMed itself was read, not run.",
    judge=judge,
    measures={"ten nodes": measure},
)
