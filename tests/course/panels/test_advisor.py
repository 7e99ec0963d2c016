"""The advisor: its numbers are those of a plain function, its picture follows the sliders."""

import time
from typing import Any

import pytest
from course.panels.shown import wait_for_png

from fltoolkit_course.panels import AdvisorPanel, compare_bytes

pytest.importorskip("ipywidgets")


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


def test_the_samples_themselves_are_compared_too() -> None:
    small = compare_bytes(10)  # a million parameters, images of MNIST
    assert small.data_nbytes == 60_000 * 136 / 10
    assert small.federated_nbytes / small.data_nbytes == pytest.approx(8e6 / 816_000)
    assert "Sending its samples once would cost each client 816.0 kB: 9.8 times less" in (
        small.sentence
    )
    photographs = compare_bytes(10, nbytes_per_sample=2e6)
    assert photographs.sentence.endswith("more than the cheaper of both.")
    assert "the data" in AdvisorPanel(num_clients=10)._lines()


@pytest.mark.later
def test_the_panel_shows_svg_at_once_and_png_at_rest(shown: list[dict[str, Any]]) -> None:
    panel = AdvisorPanel(num_clients=10)
    panel._picture.rests_after = 3600
    panel._ipython_display_()
    assert set(shown[-1]) == {"image/png", "text/plain"}
    for clients in (20, 50, 100):
        panel.sliders["num_clients"].value = clients
        assert set(shown[-1]) == {"text/html", "text/plain"}
    assert panel.comparison == compare_bytes(100)
    assert shown[-1]["text/plain"] == compare_bytes(100).sentence
    panel._picture.rests_after = 0.01
    panel.sliders["num_clients"].value = 200
    wait_for_png(shown)
    assert shown[-1]["text/plain"] == compare_bytes(200).sentence
    time.sleep(0.2)  # for pictures that should not come
    assert len(shown) == 6, "one picture at first, four while moving, one at rest"


@pytest.mark.later
def test_every_slider_reaches_both_ends(shown: list[dict[str, Any]]) -> None:
    panel = AdvisorPanel()
    panel._picture.rests_after = 60
    panel._ipython_display_()
    for slider in panel.sliders.values():
        assert slider.description
        for index in (0, len(slider.options) - 1):
            slider.index = index
            assert panel.comparison == compare_bytes(**panel.settings)
            assert "nan" not in shown[-1]["text/html"]
    panel._picture.timer.cancel()


def test_start_values_may_lie_between_the_steps(shown: list[dict[str, Any]]) -> None:
    panel = AdvisorPanel(num_clients=37, cut_width=77)
    assert panel.comparison == compare_bytes(37, cut_width=77)
    with pytest.raises(TypeError, match="cut_widht"):
        AdvisorPanel(cut_widht=77)
