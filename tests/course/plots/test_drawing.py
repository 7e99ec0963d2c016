"""The engine of charts: ticks, names that do not overlap, marks as SVG and by matplotlib."""

import io
import math
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from fltoolkit_course.plots.drawing import (
    LINE,
    Area,
    Axis,
    Box,
    Frame,
    Graphic,
    Pixels,
    Stroke,
    dot,
)
from fltoolkit_research.plots.placing import LETTER, Words


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("key", ["nbytes", "accuracy", "step"])
@pytest.mark.parametrize("reach", [3e-3, 0.7, 1.0, 4.2e3, 987_654, 4e6, 3e9])
def test_ticks_are_round_and_do_not_overlap(reach: float, key: str, log: bool) -> None:
    axis = Axis(key, reach / 1e4 if log else 0, reach, log)
    for size in (150, 450, 900):
        frame = Frame(axis, axis, Area(0, 0, size, size))
        for places in (
            [(frame.x(value), LETTER * len(words)) for value, words in frame.x_ticks],
            [(-frame.y(value), LINE) for value, words in frame.y_ticks],
        ):
            assert all(b[0] - a[0] > (a[1] + b[1]) / 2 for a, b in pairwise(places))
        assert frame.y_ticks
        assert all(axis.low <= value <= axis.high for value, _ in [*frame.x_ticks, *frame.y_ticks])
        if reach >= 1 and key == "nbytes":
            assert not [words for _, words in frame.x_ticks if "e" in words]


def test_svg_and_figure_hold_the_same_marks() -> None:
    marks = [
        Stroke([(0, 0), (10, 10)], dash=(2, 1)),
        dot(5, 5, "#000000", "#ffffff"),
        Box(1, 2, 3, 4, "#123456", 0.5),
        Words(10, 20, "$1 < 2", halo=True, bold=True),
    ]
    drawing = Graphic(40, 30, "a & b", marks)
    root = ElementTree.fromstring(drawing.svg())
    assert len(root) == 2 + len(marks)  # and title and paper
    assert root[0].text == "a & b"
    figure = drawing.figure()
    assert len(figure.artists) == len(marks)
    corners = figure.artists[1].get_path().vertices
    assert tuple(corners[0]) == pytest.approx(tuple(corners[-1])), "a closed line"
    assert drawing.png()[0]["text/plain"] == drawing.html()[0]["text/plain"] == "a & b"


def test_a_matrix_is_white_at_zero_and_has_one_pixel_per_value() -> None:
    image = Pixels(0, 0, 30, 20, torch.tensor([[2.0, 0.0, -1.0], [math.nan, math.inf, 1.0]]))
    (most, zero, below), (nan, inf, half) = image.colors().tolist()
    assert zero == [255, 255, 255]
    assert inf == most
    assert len(set(nan)) == 1, "grey"
    assert below[2] > below[0], "blue"
    assert half[0] > half[2], "orange"
    with Image.open(io.BytesIO(image.png())) as read:
        assert np.asarray(read)[0].tolist() == [most, zero, below]
    drawing = Graphic(30, 20, "a matrix", [image])
    assert len(ElementTree.fromstring(drawing.svg())) == 3
    assert len(drawing.figure().artists) == 1
