"""watch: records pass unchanged, drawing is cheap, and one picture stays whatever happens."""

import math
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fltoolkit.history import Record
from fltoolkit_course.plots import live, watch


def training(steps: int = 100, error: BaseException | None = None) -> Iterator[Record]:
    for step in range(1, steps + 1):
        if step == 5 and error:
            raise error
        record: Record = {"step": step, "loss": 2.0 / step, "nbytes": 300 * step}
        record |= {"nbytes_up": 200 * step, "nbytes_down": 100 * step}
        yield {**record, "accuracy": step / steps} if step % 10 == 0 else record


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Everything displayed, in order, as in a notebook kernel; drawings may follow at once."""
    monkeypatch.setattr(live, "_SECONDS_BETWEEN", 0)
    everything: list[dict[str, Any]] = []

    def update(data: dict[str, Any], **_: Any) -> None:
        everything.append(data)

    def display(data: dict[str, Any], *, display_id: bool, **_: Any) -> SimpleNamespace:
        assert not everything, "a second display instead of an update of the first"
        everything.append(data)
        return SimpleNamespace(update=update)

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", display)
    return everything


def check_one_picture_stays(shown: list[dict[str, Any]], words: str) -> None:
    assert all(set(data) == {"text/html", "text/plain"} for data in shown[:-1])
    assert set(shown[-1]) == {"image/png", "text/plain"}
    assert words in shown[-1]["text/plain"]


@pytest.mark.later
def test_records_pass_unchanged_and_the_end_is_drawn(shown: list[dict[str, Any]]) -> None:
    records = list(training())
    passed = list(watch(records, y=("loss", "accuracy"), title="SplitNN"))
    assert all(a is b for a, b in zip(passed, records, strict=True))
    check_one_picture_stays(shown, "SplitNN: finished: 100 of 100, ")
    assert "; loss 0.02; accuracy 100.0 %; up 20.0 kB; down 10.0 kB" in shown[-1]["text/plain"]
    assert "running: 0 of 100" in shown[0]["text/plain"]
    for data in shown[:-1]:
        assert "To see the training, run this cell again." in data["text/html"]
        assert ".fltoolkit-stands { display: none; }" in data["text/html"], "hidden elsewhere"


def test_a_break_leaves_the_picture_and_an_iterator_to_go_on_with(
    shown: list[dict[str, Any]],
) -> None:
    records = training()
    for record in watch(records, 100):
        if record["step"] == 7:
            break
    check_one_picture_stays(shown, "stopped: 7 of 100")
    assert next(records)["step"] == 8


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FloatingPointError("diverged"), "failed with FloatingPointError"),
        (KeyboardInterrupt(), "stopped"),
    ],
    ids=["error", "stop"],
)
def test_an_error_in_training_passes_on(
    shown: list[dict[str, Any]], error: BaseException, words: str
) -> None:
    with pytest.raises(type(error)):
        list(watch(training(error=error), 100))
    check_one_picture_stays(shown, f"{words}: 4 of 100")


@pytest.mark.later
def test_wrong_x_is_explained(shown: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"x='round' is no key.*'step', 'loss'"):
        list(watch(training(), x="round"))


def test_drawing_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, drawn = [0.0], []

    def draw(run: Any) -> None:
        now[0] += 0.03  # what one drawing takes
        drawn.append(now[0])

    monkeypatch.setattr(live.time, "perf_counter", lambda: now[0])
    draw_if_due = live.throttled(draw)
    for _ in range(10_000):
        now[0] += 0.001  # one training step
        draw_if_due(None)  # type: ignore[arg-type]
    assert 0.03 < 0.03 * len(drawn) / now[0] <= 0.041
    quick = live.throttled(lambda run: drawn.append(now[0]))
    drawn.clear()
    for _ in range(1000):
        now[0] += 0.001
        quick(None)  # type: ignore[arg-type]
    assert 9 <= len(drawn) <= 11


@pytest.mark.parametrize("count", [0, 1, 2, 299, 300, 301, 12_345])
def test_curves_are_thinned_and_keep_the_last_point(count: int) -> None:
    points = live.thinned([(k, -k) for k in range(count)])
    assert len(points) == count if count < 300 else 150 <= len(points) <= 300
    assert points == sorted(set(points))
    if count:
        assert points[-1] == (count - 1, 1 - count)


def test_outside_a_notebook_one_line_in_a_terminal_else_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    assert len(list(watch(training()))) == 100
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    list(watch(training(), 100))
    lines = capsys.readouterr().err.split("\r")
    assert lines[-1].startswith("finished: 100 of 100")
    assert lines[-1].endswith("\n")
    assert all(len(line.rstrip("\n")) <= 39 for line in lines)


@pytest.mark.later
def test_matrices_move_below_the_charts_and_stay_as_a_picture(
    shown: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images are those of the moment: each drawing asks for them again."""
    monkeypatch.setattr(live, "_SHARE", math.inf)  # each record is drawn
    weights = torch.zeros(8, 8)
    look = {"Alice's weights": weights, "their signs": weights}
    for record in watch(training(), y="loss", inside=lambda: look):
        weights[0, record["step"] % 8] = 1.0
    assert "Alice&#x27;s weights" in shown[0]["text/html"]
    images = {re.search(r"base64,[^\"]+", data["text/html"])[0] for data in shown[:-1]}  # type: ignore[index]
    assert len(images) > 1
    check_one_picture_stays(shown, "finished: 100")
