"""Answers of notebook 08; what the attack finds is made up here, and measured in the notebook."""

from types import SimpleNamespace
from typing import Any

from course.answers import NAN, Case

from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit_research.leakage import Noise


def attack(codec: Any, weight: float) -> SimpleNamespace:
    """More noise hides more, bits cost bytes, and a large weight costs accuracy."""
    sigma = sum(stage.sigma for stage in getattr(codec, "stages", ()) if isinstance(stage, Noise))
    bits = [stage.bits for stage in getattr(codec, "stages", ()) if isinstance(stage, Quantize)]
    return SimpleNamespace(
        sentence="made up",
        explained_variance=0.96 - 0.25 * sigma,
        accuracy=0.967 - 0.01 * sigma - 0.01 * weight,
        nbytes=80 * (bits[0] if bits else 32),
    )


CASES = {
    "explained variance": Case(right=[62.5], wrong=[37.5, 50, 0.625, 100 * (1 - 0.8 / 0.3), NAN]),
    "AUC": Case(right=[5 / 6], wrong=[5, 2 / 3, 1, 1 / 6, 0.6, 83.3]),
    "explained variance at cut 2": Case(
        facts={"at_2": 0.978, "at_4": 0.961}, right=[97.8], wrong=[96.1, 0.978, 20, NAN]
    ),
    "spent wisely": Case(
        facts={"attack": attack},
        right=[
            (Pipeline(Noise(2.0), Quantize(4)), 0.0),
            [Pipeline(Noise(3.0), Quantize(2)), 0],
            (Pipeline(Noise(2.0), Quantize(4)), 1.0),
        ],
        wrong=[
            (None, 0.0),
            (Pipeline(Noise(2.0)), 0.0),
            (Pipeline(Noise(6.0), Quantize(4)), 0.0),
            (Pipeline(Quantize(4)), 0.0),
            Pipeline(Noise(2.0), Quantize(4)),
        ],
    ),
}
