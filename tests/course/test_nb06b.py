"""Answers of the appendix of notebooks 05 and 06."""

import torch
from course.answers import NAN, Case

from fltoolkit.trees import masked_mean, weighted_mean
from fltoolkit_course.nb06b import notebook

PER_VALUE = 9.14284  # as the notebook finds it

CASES = {
    "bits in use": Case(
        facts={"per_value": PER_VALUE},
        right=[28],
        wrong=[32, 4, 9.14, PER_VALUE, 7, 27, 29, NAN, "27 bits"],
    ),
    "a zero that was sent": Case(right=[1], wrong=[2, 0, 0.5, NAN]),
    "four of ten": Case(
        right=[(-0.8, -2), [-0.8, -2.0], torch.tensor([-0.8, -2.0], dtype=torch.float64)],
        wrong=[(-2, -0.8), (0.8, 2), (-0.8, -0.8), (-2, -2), -0.8, (-8, -2)],
    ),
}


def test_the_answers_are_the_packages() -> None:
    sent = [{"w": torch.tensor([0.0])}, {"w": torch.tensor([2.0])}]
    everywhere = 2 * [{"w": torch.tensor([True])}]
    wanted = notebook.answers["a zero that was sent"]().expected
    assert masked_mean(sent, everywhere, [1, 1])["w"].item() == wanted
    ten = 4 * [{"w": torch.tensor([-2.0])}] + 6 * [{"w": torch.tensor([0.0])}]
    masks = [{"w": tree["w"] != 0} for tree in ten]
    means = [weighted_mean(ten, 10 * [1])["w"], masked_mean(ten, masks, 10 * [1])["w"]]
    wanted = notebook.answers["four of ten"]().expected
    assert torch.allclose(torch.cat(means), torch.tensor(wanted))
