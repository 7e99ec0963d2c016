"""Random top-k at its own cut: 128 activations, 16 of them sent."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, spread, times
from fltoolkit.codecs import Pipeline, TopK
from fltoolkit_research import Experiment
from fltoolkit_research.codecs import RandTopK, SameMask

FRACTION = 16 / 128


def plain(name: str, codecs: dict, **settings) -> Experiment:
    """Two parties, cut behind the first layer, whose width is 128."""
    return Experiment(
        "split",
        data="mnist",
        num_samples=8000,
        cut=2,
        rounds=20,
        batch_size=64,
        lr=0.05,
        codecs=codecs,
        settings=settings,
        name=name,
    )


def judge(runs: Runs) -> Finding:
    """Better, at the same bytes up to a hundredth."""
    points = runs.points("RandTopK", "top-k")
    ratio = runs.fewer("RandTopK", "top-k")
    words = (
        f"At equal bytes (factor {times(ratio, '.3f')}) RandTopK is {spread(points, '+.2f')} "
        f"points from top-k; top-k is {runs.in_points('top-k', 'float32')} points from float32."
    )
    return Finding(
        judged(rule.at_least(points, 0.0), rule.saves(ratio, 1, share=0.99)),
        words,
        times(runs.fewer("RandTopK", "float32", "nbytes_up")),
        times(runs.fewer("RandTopK", "float32")),
    )


CLAIM = Claim(
    title="Randomized top-k is better than top-k at the same size",
    group="split learning",
    source="Zheng et al. 2023, IJCAI, arXiv 2305.18469, abstract",
    quote="Empirical results show that compared with other communication-reduction methods, our "
    "proposed randomized top-k sparsification achieves a better model performance under the same "
    "compression level.",
    ours="8,000 images of MNIST, 20 passes, cut at 128 activations of which 16 are sent, the "
    "gradients at the same places. Tested with plain top-k, as in the paper. At the cut of "
    "docs/results.md, 640 activations of which most are zero, it is not worth it: few bits need "
    "fewer bytes there.",
    judge=judge,
    measures={
        "float32": plain("float32", {}),
        "top-k": plain(
            "top-k",
            {"activations": Pipeline(TopK(FRACTION)), "gradients": Pipeline(SameMask())},
            through=Pipeline(TopK(FRACTION)),
        ),
        "RandTopK": plain(
            "RandTopK",
            {"activations": Pipeline(RandTopK(FRACTION)), "gradients": Pipeline(SameMask())},
            through=Pipeline(RandTopK(FRACTION, training=False)),
        ),
    },
)
