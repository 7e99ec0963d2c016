"""Figures: they draw what the histories hold, errors say what to do, and PNGs have their words."""

import matplotlib.figure
import pytest
import torch

from fltoolkit import plots
from fltoolkit.channel import Channel
from fltoolkit.history import History


def run(*accuracies: float, nbytes: int = 2_000_000) -> History:
    steps = enumerate(accuracies, 1)
    return History(
        {"step": i, "nbytes": nbytes * i, "accuracy": a, "loss": 1 - a} for i, a in steps
    )


def channel() -> Channel:
    made = Channel()
    for _ in range(3):
        made.send("alice", "bob", "activations", {"h": torch.zeros(64, 640)})
        made.send("bob", "alice", "gradients", {"h": torch.zeros(64, 640)})
    return made


@pytest.mark.later
def test_accuracy_over_bytes_has_units_and_values() -> None:
    ax = plots.accuracy_over_bytes({"split": run(0.5, 0.9), "federated": run(0.3, 0.8)})
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("bytes sent [MB]", "accuracy [%]")
    assert ax.lines[0].get_xydata().tolist() == [[2, 50], [4, 90]]
    assert [text.get_text() for text in ax.texts] == ["split 90.0 %", "federated 80.0 %"]


@pytest.mark.later
def test_several_seeds_are_mean_and_band() -> None:
    ax = plots.accuracy_over_bytes({"split": [run(0.4, 0.8), run(0.6, 0.9)]})
    assert ax.lines[0].get_ydata() == pytest.approx([50, 85])
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0, 100)  # t = 12.7, and no share is beyond these
    assert "mean of 2 runs, 95 % interval (t): 21.5 % to 100.0 %" in ax.get_label()


@pytest.mark.later
def test_seeds_with_other_bytes_are_compared_where_all_have_values() -> None:
    ax = plots.accuracy_over_bytes({"a": [run(0.0, 0.4), run(0.2, 0.2, nbytes=1_500_000)]})
    assert ax.lines[0].get_xdata() == pytest.approx([2, 3])  # MB that both have
    assert ax.lines[0].get_ydata() == pytest.approx([10, 20])


@pytest.mark.parametrize(
    ("histories", "message"),
    [
        ({}, "no histories to plot"),
        ({"split": History()}, "'split'.*it is empty"),
        ({"split": History([{"step": 1, "loss": 1.0}])}, r"keys are \['loss', 'step'\].*evaluated"),
        ({"split": []}, "'split'.*at least one run"),
    ],
)
def test_missing_data_is_explained(histories: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plots.accuracy_over_bytes(histories)


@pytest.mark.later
def test_seeds_without_common_range_are_a_point_with_a_bar() -> None:
    late = History([{"nbytes": 9_000_000, "accuracy": 0.1}])
    ax = plots.accuracy_over_bytes({"split": run(0.5, 0.9), "a": [run(0.1, 0.2), late]})
    assert ax.lines[1].get_xydata() == pytest.approx(torch.tensor([[6.5, 15.0]]).numpy())
    assert [text.get_text() for text in ax.texts] == ["split 90.0 %", "a 15.0 %, mean of the ends"]
    assert "2 runs that share no range of bytes sent" in ax.get_label()
    low, high = ax.collections[0].get_segments()[0][:, 1]
    assert low < 15 < high, "a bar shows the interval, which a band of no width could not"


def test_ledger_shows_payload_headers_and_the_exact_total() -> None:
    sent = channel()
    ax = plots.ledger(sent)
    payload = 3 * 64 * 640 * 4
    headers = sent.nbytes(kind="gradients") - payload
    widths = [bar.get_width() * 1000 for bar in ax.patches]
    assert widths == pytest.approx([payload, headers] * 2)
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "alice → bob\nactivations",
        "bob → alice\ngradients",
    ]
    assert f"{payload + headers:,} B in 3 messages" in ax.texts[0].get_text()
    assert f"headers {headers} B" in ax.texts[0].get_text()


def test_partition_counts_every_sample_once() -> None:
    labels = torch.tensor([0, 1, 2, 0, 1, 1])
    ax = plots.partition(labels, [torch.tensor([0, 1]), torch.tensor([2, 3, 4, 5])])
    assert ax.get_xlabel() == "client (in the cells: samples)"
    assert ax.images[0].get_array().tolist() == [[1, 1], [1, 2], [0, 1]]
    assert "client 1: 4 samples of 3 classes" in ax.get_label()
    with pytest.raises(ValueError, match="0 parts"):
        plots.partition(labels, [])


@pytest.mark.later
def test_show_displays_a_png_and_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append((data, more)))
    plots.show(plots.accuracy_over_bytes({"split": run(0.5, 0.9712)}))
    figure = matplotlib.figure.Figure()
    figure.subplots().plot([1, 2], [3, 4], label="mine")
    plots.show(figure.axes[0])
    (ours, more), (theirs, _) = shown
    assert set(ours) == {"image/png", "text/plain"}
    assert more["raw"] is True
    assert ours["text/plain"] == "split ends at accuracy 97.1 %, bytes sent 4.0 MB"
    assert theirs["text/plain"] == "mine ends at (2, 4)"
