"""The panels: their numbers are those of plain functions, and their pictures follow the sliders."""

import copy
import sys
import time
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from fltoolkit.codecs import Entropy, ErrorFeedback, Pipeline, Quantize, RandomK, Sign, TopK
from fltoolkit.panels import advisor_panel, codec_panel, compare_bytes
from fltoolkit.plots import describe_codec, plot_bits, plot_values
from fltoolkit.plots.codec_report import draw_report

pytest.importorskip("ipywidgets")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The pictures displayed, in order."""
    pictures: list[dict[str, Any]] = []

    def display(data: Any, **_: Any) -> SimpleNamespace:
        if isinstance(data, dict):
            pictures.append(data)
        return SimpleNamespace(update=lambda data, **_: pictures.append(data))

    monkeypatch.setattr("IPython.display.display", display)
    return pictures


def test_bytes_by_hand() -> None:
    # 2 p q 4 / K for splitting plus handing on half of the model, and 2 N 4 for federating
    result = compare_bytes(
        10, num_parameters=1000, cut_width=5, num_samples=200, client_fraction=0.5
    )
    assert result.split_nbytes == 2 * 200 * 5 * 4 / 10 + (10 - 1) * 500 * 4 / 10
    assert result.federated_nbytes == 2 * 1000 * 4


@pytest.mark.parametrize("client_fraction", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("cut_width", [1, 640, 100_000])
def test_the_crossover_is_where_splitting_begins_to_pay(
    client_fraction: float, cut_width: int
) -> None:
    settings: dict[str, Any] = {"client_fraction": client_fraction, "cut_width": cut_width}
    start = compare_bytes(2, **settings).crossover_clients
    for clients in (2, 40, 41, 200, 1000):
        result = compare_bytes(clients, **settings)
        pays = result.split_nbytes < result.federated_nbytes
        assert pays == (start is not None and clients >= start)
        assert result.sentence.startswith("Split learning" if pays else "Federated averaging")
    if start is not None:
        before, result = (compare_bytes(start - k, **settings) for k in (1, 0))
        assert result.split_nbytes < result.federated_nbytes
        assert start == 2 or before.split_nbytes >= before.federated_nbytes


def test_a_model_that_never_pays_says_so() -> None:
    never = compare_bytes(5, num_parameters=10_000, cut_width=100_000, num_samples=1_000)
    assert never.crossover_clients is None
    assert "does not pay for any number" in never.sentence
    close = compare_bytes(76, client_fraction=1.0)
    assert close.sentence.startswith("Both cost nearly the same")
    assert "with 1 client each" in compare_bytes(1).sentence


def test_the_panel_shows_svg_at_once_and_png_at_rest(shown: list[dict[str, Any]]) -> None:
    panel = advisor_panel(num_clients=10, seconds_at_rest=1)
    panel._ipython_display_()
    assert set(shown[-1]) == {"image/png", "text/plain"}
    for clients in (20, 50, 100):
        panel.sliders["num_clients"].value = clients
        assert set(shown[-1]) == {"text/html", "text/plain"}
    assert panel.comparison == compare_bytes(100)
    assert shown[-1]["text/plain"] == compare_bytes(100).sentence
    for _ in range(1000):
        if "image/png" in shown[-1]:
            break
        time.sleep(0.05)
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert shown[-1]["text/plain"] == compare_bytes(100).sentence
    time.sleep(0.2)  # for pictures that should not come
    assert len(shown) == 5, "one picture at first, three while moving, one at rest"


def test_every_slider_reaches_both_ends(shown: list[dict[str, Any]]) -> None:
    panel = advisor_panel(seconds_at_rest=60)
    panel._ipython_display_()
    for slider in panel.sliders.values():
        assert slider.description
        for index in (0, len(slider.options) - 1):
            slider.index = index
            assert panel.comparison == compare_bytes(**panel.settings)
            assert "nan" not in shown[-1]["text/html"]
    panel._picture.timer.cancel()


def test_start_values_may_lie_between_the_steps(shown: list[dict[str, Any]]) -> None:
    panel = advisor_panel(num_clients=37, cut_width=77)
    assert panel.comparison == compare_bytes(37, cut_width=77)
    with pytest.raises(TypeError, match="cut_widht"):
        advisor_panel(cut_widht=77)


def test_without_ipywidgets_the_error_holds_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[lab\]"'):
        advisor_panel()


# ----------------------------------------------------------------------------- what a codec does


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_a_report_by_hand() -> None:
    x = torch.tensor([0.0, 1.1, 3.0, 3.0])
    report = describe_codec(x, Pipeline(Quantize(2)), num_bins=3)
    assert report.num_values == 4
    assert report.nominal_bits == (4 * 2 + 64) / 4  # two bits each, and the range in two floats
    assert report.entropy_bits == (1.5 * 4 + 64) / 4  # shares of 1/4, 1/4 and 1/2
    assert report.largest_error == pytest.approx(0.1)
    assert report.relative_error == pytest.approx(0.01 / (1.21 + 9 + 9))
    assert report.edges == (0, 1, 2, 3)
    assert report.before == (1, 1, 2)
    assert report.after == (1, 1, 2)
    assert report.num_beyond == 0


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(),
        Pipeline(Quantize(4), Entropy()),
        Pipeline(Quantize(3, stochastic=True)),
        Pipeline(TopK(0.1), Quantize(4), Entropy()),
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
    assert f"{report.real_bits:.2f} bits a value are sent" in report.sentence


def test_float32_costs_what_it_costs() -> None:
    report = describe_codec(normal(100), Pipeline())
    assert report.nominal_bits == report.entropy_bits == 32
    assert 32 < report.real_bits < 34
    assert report.relative_error == report.largest_error == 0
    assert report.before == report.after


@pytest.mark.parametrize("value", [0.0, -2.5, 1e-30, 3e38])
def test_constant_tensors_have_a_picture_too(value: float) -> None:
    report = describe_codec(torch.full((10,), value), Pipeline(Quantize(4)))
    assert report.relative_error == 0
    assert max(report.before) == max(report.after) == 10
    ElementTree.fromstring(draw_report(report, "constant").svg())
    plot_values(report).figure.canvas.figure.draw_without_rendering()


def test_what_arrives_beyond_the_axis_is_said() -> None:
    report = describe_codec(normal(2000), Pipeline(RandomK(0.01)))
    assert report.num_beyond > 5
    assert f"{report.num_beyond:,} values arrive beyond the axis" in report.sentence
    assert sum(report.after) == 2000
    span = float(normal(2000).max() - normal(2000).min())
    assert report.edges[-1] - report.edges[0] <= 2 * span * 1.001


def test_dependent_symbols_cost_less_than_the_bound_and_the_report_says_why() -> None:
    rows = normal(200, 50) * (torch.arange(200) % 2)[:, None]  # every other row is dead
    report = describe_codec(rows, Pipeline(Quantize(8), Entropy()))
    assert report.real_bits < report.entropy_bits
    assert "not independent" in report.sentence
    assert "not independent" not in describe_codec(normal(10), Pipeline(Quantize(8))).sentence


@pytest.mark.parametrize(
    ("tensor", "codec", "error", "match"),
    [
        (normal(3), ErrorFeedback(Pipeline(Quantize(4))), TypeError, "pass the one inside"),
        (torch.tensor([1, 2]), Pipeline(Quantize(4)), ValueError, "2 values of torch.int64"),
        (torch.zeros(0), Pipeline(Quantize(4)), ValueError, "0 values"),
        (torch.tensor([1.0, float("nan")]), Pipeline(Quantize(4)), ValueError, "NaN"),
    ],
)
def test_what_cannot_be_described(tensor: Any, codec: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        describe_codec(tensor, codec)


def test_bits_of_several_codecs_in_one_picture() -> None:
    codecs = {"plain": Pipeline(Quantize(4)), "coded": Pipeline(Quantize(4), Entropy())}
    reports = {name: describe_codec(normal(4000), codec) for name, codec in codecs.items()}
    ax = plot_bits(reports)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["plain", "coded"]
    for name, report in reports.items():
        assert f"{name}: {report.sentence}" in str(ax.get_label())
        assert f"{report.real_bits:.2f} sent" in [t.get_text() for t in ax.texts]
    assert plot_bits(reports["plain"]).get_label() == reports["plain"].sentence
    with pytest.raises(ValueError, match="no reports to plot"):
        plot_bits({})


# ------------------------------------------------------------------------------- the codec panel


def test_the_codec_panel_follows_its_controls(shown: list[dict[str, Any]]) -> None:
    tensors = {"activation": normal(20, 30).relu(), "update": 0.01 * normal(20, 30)}
    panel = codec_panel(tensors, seconds_at_rest=1)
    panel._ipython_display_()
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert panel.report == describe_codec(tensors["activation"], Pipeline(Quantize(4)))
    panel.controls["tensor"].value = "update"
    panel.controls["bits"].value = 6
    panel.controls["entropy"].value = True
    codec = Pipeline(Quantize(6), Entropy())
    assert panel.codec == codec
    assert panel.report == describe_codec(tensors["update"], codec)
    assert set(shown[-1]) == {"text/html", "text/plain"}
    assert shown[-1]["text/plain"] == f"Quantize, nearest: {panel.report.sentence}"
    assert panel.report.sentence == panel._sentence.value
    assert f"sent <b>{panel.report.real_bits:.2f}</b>" in panel._readout.value
    assert "Quantize(bits=6" in panel._readout.value
    for _ in range(1000):
        if "image/png" in shown[-1]:
            break
        time.sleep(0.05)
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert shown[-1]["text/plain"] == f"Quantize, nearest: {panel.report.sentence}"


def test_sliders_that_do_nothing_are_off_and_the_panel_says_so() -> None:
    panel = codec_panel(normal(100))
    off = {}
    for name in panel.controls["codec"].options:
        panel.controls["codec"].value = name
        off[name] = [key for key in ("bits", "fraction") if panel.controls[key].disabled]
        said = f"{name} uses no {' and no '.join(off[name])}: switched off" if off[name] else ""
        assert said in panel._readout.value
        assert ("switched off" in panel._readout.value) == bool(off[name])
    assert off["Quantiles"] == ["fraction"]
    assert off["TopK"] == ["bits"]
    assert off["Sign"] == ["bits", "fraction"]
    assert off["TopK, then Quantize"] == []


def test_a_slider_that_is_off_would_change_nothing() -> None:
    panel = codec_panel(normal(500), bits=2, fraction=0.05)
    for name in panel.controls["codec"].options:
        panel.controls["codec"].value = name
        for key, other in (("bits", 7), ("fraction", 0.5)):
            before, kept = panel.codec, panel.controls[key].value
            panel.controls[key].value = other
            assert (panel.codec == before) == panel.controls[key].disabled, (name, key)
            panel.controls[key].value = kept


def test_every_choice_reaches_both_ends(shown: list[dict[str, Any]]) -> None:
    panel = codec_panel(normal(20, 30), seconds_at_rest=60)
    panel._ipython_display_()
    for name in panel.controls["codec"].options:
        panel.controls["codec"].value = name
        for key in ("bits", "fraction"):
            slider = panel.controls[key]
            for index in (0, len(slider.options) - 1):
                slider.index = index
                assert "nan" not in shown[-1]["text/html"]
                ElementTree.fromstring(shown[-1]["text/html"])
    panel._picture.timer.cancel()


def test_where_the_codec_panel_starts() -> None:
    assert codec_panel().report.num_values == 40_960
    panel = codec_panel(normal(64), codec="TopK, then Quantize", bits=3, fraction=0.123)
    assert panel.codec == Pipeline(TopK(0.123), Quantize(3))
    with pytest.raises(ValueError, match="'Topk' is none of 'Quantize, nearest', "):
        codec_panel(normal(64), codec="Topk")
    with pytest.raises(ValueError, match="no tensor to show"):
        codec_panel({})
    with pytest.raises(ValueError, match="NaN"):
        codec_panel(torch.tensor([float("nan")]))
    with pytest.raises(TypeError, match="fractoin"):
        codec_panel(normal(64), fractoin=0.1)


def test_the_codec_panel_without_ipywidgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r"plots\.describe_codec\(tensor, codec\)"):
        codec_panel(normal(3))
