"""Codec reports: what a codec does to a tensor and what it costs."""

import copy
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from course.panels.tensors import normal

from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit_course.plots import describe_codec, draw_report
from fltoolkit_research.codecs import ContextEntropy, RandomK, Sign


def test_a_report_by_hand() -> None:
    x = torch.tensor([0.0, 1.1, 3.0, 3.0])
    report = describe_codec(x, Pipeline(Quantize(2)))
    assert report.num_values == 4
    assert report.nominal_bits == (4 * 2 + 64) / 4  # two bits each, and the range in two floats
    assert report.entropy_bits == (1.5 * 4 + 64) / 4  # shares of 1/4, 1/4 and 1/2
    assert report.largest_error == pytest.approx(0.1)
    assert report.relative_error == pytest.approx(0.01 / (1.21 + 9 + 9))
    assert (report.edges[0], report.edges[-1], len(report.edges)) == (0, 3, 61)
    assert [count for count in report.before if count] == [1, 1, 2]
    assert [count for count in report.after if count] == [1, 1, 2]


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(),
        Pipeline(Quantize(4), ContextEntropy()),
        Pipeline(Quantize(3, stochastic=True)),
        Pipeline(TopK(0.1), Quantize(4), ContextEntropy()),
        Pipeline(RandomK(0.1)),
        Pipeline(Sign()),
    ],
    ids=repr,
)
def test_a_report_is_what_the_codec_does(codec: Pipeline) -> None:
    x = normal(50, 40)
    report, saved = describe_codec(x, codec), copy.deepcopy(codec.state_dict())
    assert codec.state_dict() == saved, "describing moved the codec's state"
    assert describe_codec(x, codec) == report
    rows, message = codec.explain({"x": x}), codec.encode({"x": x})
    arrived = copy.deepcopy(codec).decode(message)["x"]
    assert report.nbytes == len(message) == rows[-1].nbytes
    assert report.real_bits == 8 * len(message) / 2000
    assert report.largest_error == pytest.approx(float((arrived - x).abs().max()))
    assert sum(report.before) == sum(report.after) == 2000
    assert f"{report.real_bits:.2f} bits per value are sent" in report.sentence


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, -2.5, 1e-30, 3e38])
def test_constant_tensors_have_a_picture_too(value: float) -> None:
    report = describe_codec(torch.full((10,), value), Pipeline(Quantize(4)))
    assert report.relative_error == 0
    assert max(report.before) == max(report.after) == 10
    ElementTree.fromstring(draw_report(report, "constant").svg())
    draw_report(report).png()


def test_dependent_symbols_cost_less_than_the_bound_and_the_report_says_why() -> None:
    rows = normal(200, 50) * (torch.arange(200) % 2)[:, None]  # every other row is dead
    report = describe_codec(rows, Pipeline(Quantize(8), ContextEntropy()))
    assert report.real_bits < report.entropy_bits
    assert "not independent" in report.sentence
    assert "not independent" not in describe_codec(normal(10), Pipeline(Quantize(8))).sentence


@pytest.mark.parametrize(
    ("tensor", "codec", "error", "match"),
    [
        (normal(3), ErrorFeedback(Pipeline(Quantize(4))), TypeError, "pass the Pipeline inside"),
        (torch.tensor([1, 2]), Pipeline(Quantize(4)), ValueError, "2 values of torch.int64"),
        (torch.zeros(0), Pipeline(Quantize(4)), ValueError, "0 values"),
        (torch.tensor([1.0, float("nan")]), Pipeline(Quantize(4)), ValueError, "NaN"),
    ],
)
def test_what_cannot_be_described(tensor: Any, codec: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        describe_codec(tensor, codec)
