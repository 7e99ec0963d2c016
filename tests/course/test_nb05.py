"""Answers of notebook 05: right in several spellings, wrong as readers are wrong."""

import torch
from course.answers import NAN, Case, Printed, assert_checks

from fltoolkit.course.nb05 import notebook

PER_VALUE = 9.14284  # as the notebook finds it
X = 255 * torch.rand(4000, generator=torch.Generator().manual_seed(1))
X[0] = 255.0001  # as rounding makes of the largest value
U = torch.rand(4000, generator=torch.Generator().manual_seed(2))
FLOOR = X.floor()
UP = (U < X - FLOOR).float()

CASES = {
    "bits in use": Case(
        facts={"per_value": PER_VALUE},
        right=[28, 28.0, 8 / PER_VALUE * 32, 8 / 9.14 * 32, torch.tensor(28)],
        wrong=[32, 4, 9.14, PER_VALUE, 7, 27, 29, NAN, "28 bits"],
    ),
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
        facts={"full": 0.961},
        right=[(0.961, 0.2), (0.942, 0.5), (0.99, 0.01)],
        wrong=[(0.10, 1.03), (0.95, 0.51), (0.93, 0.3), (NAN, 0.1), (0.95, NAN)],
    ),
}


def test_checks(capsys: Printed) -> None:
    assert_checks(notebook, CASES, capsys)


def test_each_mistake_of_rounding_is_named(capsys: Printed) -> None:
    wrong = CASES["stochastic levels"].wrong
    for answer, words in zip(
        wrong,
        ("nearest", "rounds down", "rounds up", "3 of 10", "decide", "beside", "beside", "shape"),
        strict=False,
    ):
        notebook.check("stochastic levels", answer, x=X, u=U)
        assert words in capsys.readouterr().out
