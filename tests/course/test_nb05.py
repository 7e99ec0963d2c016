"""Answers of notebook 05: right in several spellings, wrong as readers are wrong."""

import pytest
import torch
from course.answers import NAN, Case, Printed

from fltoolkit.codecs import Codec, Entropy, Pipeline, Quantize
from fltoolkit_course.nb05 import notebook
from fltoolkit_research.codecs import QSGD, Ternary

X = 255 * torch.rand(4000, generator=torch.Generator().manual_seed(1))
X[0] = 255.0001  # as rounding makes of the largest value
U = torch.rand(4000, generator=torch.Generator().manual_seed(2))
FLOOR = X.floor()
UP = (U < X - FLOOR).float()

CASES = {
    "stochastic levels": Case(
        facts={"x": X, "u": U},
        right=[
            (X + U).floor().clamp(0, 255).byte(),
            (FLOOR + (U < X - FLOOR)).byte(),
            FLOOR + UP,
            torch.where(U < X % 1, X.floor() + 1, X.floor()).int(),
            (X + U).floor().clamp(0, 255),
        ],
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
        right=[
            Pipeline(Ternary(), Entropy()),
            Pipeline(QSGD(1), Entropy()),
            Pipeline(Quantize(2), Entropy()),
        ],
        wrong=["Ternary", 0.2, (0.96, 0.2), Pipeline],
    ),
}


@pytest.mark.parametrize(
    ("score", "real_bits", "words"),
    [
        (0.10, 1.03, "accuracy (within 2 points of full precision), fewer bits"),
        (0.95, 0.51, "Still missing: fewer bits"),
        (0.93, 0.30, "Still missing: accuracy"),
        (NAN, 0.10, "Still missing: accuracy"),
        (0.95, NAN, "Still missing: fewer bits"),
    ],
)
def test_a_codec_rescues_only_with_accuracy_and_few_bits(
    score: float, real_bits: float, words: str, capsys: Printed
) -> None:
    facts = {"rescue": lambda codec: (score, real_bits), "full": 0.961}
    assert not notebook.check("gradients rescued", Pipeline(Quantize(1)), **facts)
    assert words in capsys.readouterr().out


def test_a_training_that_fails_is_told_in_words(capsys: Printed) -> None:
    def rescue(codec: Codec) -> tuple[float, float]:
        raise FloatingPointError("the loss is nan")

    assert not notebook.check("gradients rescued", Pipeline(Quantize(1)), rescue=rescue, full=0.96)
    assert "not yet. It cannot be tried: the loss is nan" in capsys.readouterr().out


def test_each_mistake_of_rounding_is_named(capsys: Printed) -> None:
    wrong = CASES["stochastic levels"].wrong
    for answer, words in zip(
        wrong,
        ("nearest", "rounds down", "rounds up", "3 of 10", "decide", "beside", "beside", "shape"),
        strict=False,
    ):
        notebook.check("stochastic levels", answer, x=X, u=U)
        assert words in capsys.readouterr().out
