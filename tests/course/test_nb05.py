import pytest
import torch
from course.answers import NAN, Case, Printed

from fltoolkit.codecs import Entropy, Pipeline, Quantize
from fltoolkit_course.nb05 import notebook
from fltoolkit_research.codecs import Ternary

X = 255 * torch.rand(4000, generator=torch.Generator().manual_seed(1))
X[0] = 255.0001  # as rounding makes of the largest value
U = torch.rand(4000, generator=torch.Generator().manual_seed(2))
FLOOR = X.floor()
UP = (U < X - FLOOR).float()

CASES = {
    "stochastic levels": Case(
        facts={"x": X, "u": U},
        right=[(X + U).floor().clamp(0, 255).byte(), FLOOR + UP],
        wrong=[
            X.round().byte(),
            FLOOR.byte(),
            X.ceil(),
            FLOOR + (U > X - FLOOR),
            FLOOR + (U < 0.5),
            (X + U).round(),
            X,
            (X + U).floor()[:100],
            [1, 2, 3],
            torch.full((4000,), NAN),
        ],
    ),
    "gradients rescued": Case(
        facts={"rescue": lambda codec: (0.96, 0.2), "full": 0.961},
        right=[Pipeline(Ternary(), Entropy())],
        wrong=["Ternary", 0.2, (0.96, 0.2), Pipeline],
    ),
}


@pytest.mark.parametrize(
    ("score", "real_bits", "words"),
    [
        (0.10, 1.03, "accuracy (within 2 points of full precision), fewer bits"),
        (0.95, 0.51, "Still missing: fewer bits"),
        (NAN, 0.10, "Still missing: accuracy"),
    ],
)
def test_a_codec_rescues_only_with_accuracy_and_few_bits(
    score: float, real_bits: float, words: str, capsys: Printed
) -> None:
    facts = {"rescue": lambda codec: (score, real_bits), "full": 0.961}
    assert not notebook.check("gradients rescued", Pipeline(Quantize(1)), **facts)
    assert words in capsys.readouterr().out


def test_each_mistake_of_rounding_is_named(capsys: Printed) -> None:
    wrong = CASES["stochastic levels"].wrong
    told = ("nearest", "decide", "decide", "3 of 10", "decide", "beside", "beside", "shape")
    for answer, words in zip(wrong, told, strict=False):
        notebook.check("stochastic levels", answer, x=X, u=U)
        assert words in capsys.readouterr().out
