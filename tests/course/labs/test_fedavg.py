"""The FedAvg lab: what acts when, and the script that does a run again."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from typing import Any

import pytest
import torch
from course.labs.few_digits import FEW as DATA
from course.labs.few_digits import assert_repeated, per_record, picture_of
from course.labs.few_digits import small_fedavg as small

from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit_course.labs import FedAvgLab, Plot
from fltoolkit_course.labs.board import Move
from fltoolkit_course.labs.fedavg import model_codec, update_codec
from fltoolkit_course.labs.layout import frame_of, lay_out

CODECS = ("bits_down", "bits_up", "top_k", "error_feedback")


# ------------------------------------------------------------------ doing a run again


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"alpha": 0.1, "local_steps": 5, "cohort_size": 5, "wait_for": 2, "seed": 3},
        {"wait_for": 1, "cohort_size": 5, "staleness": "polynomial"},
        {"bits_down": 8, "bits_up": 4},
        {"top_k": 0.1, "error_feedback": True, "masked": True},
    ],
    ids=str,
)
def test_the_script_gives_the_same_bytes_and_accuracy(settings: dict[str, Any]) -> None:
    lab = small(**settings)
    lab.run()
    assert_repeated(lab)


@pytest.mark.slow
def test_the_script_knows_the_whole_codec_after_several_moves() -> None:
    lab = small(8, bits_up=8)
    lab.run(2)
    lab.set("top_k", 0.1)
    lab.run(1)
    lab.set("bits_up", 4)
    lab.set("error_feedback", True)
    lab.set("bits_down", 8)
    run = lab.run()
    assert run.moves == [
        Move(2, "top_k", 0.1),
        Move(3, "bits_up", 4),
        Move(3, "error_feedback", True),
        Move(3, "bits_down", 8),
    ]
    code = lab.script()
    assert "FedAvgLab" not in code.split('"""')[2], "the package's own functions only"
    assert 'if record["step"] == 3:' in code
    assert "ErrorFeedback(Pipeline(TopK(fraction=0.1" in code
    assert code == lab.script(), "writing it down changes nothing"
    assert_repeated(lab)


@pytest.mark.later
def test_a_slider_that_is_dragged_in_a_pause_is_one_move() -> None:
    """What it passed on its way changes nothing: neither bits nor what is drawn."""
    lab = small(4, bits_up=8)
    lab.set("bits_up", 4)
    lab.run(1)
    for bits in (8, 1, 2):
        lab.set("bits_up", bits)
    run = lab.run()
    assert run.moves == [Move(1, "bits_up", 2)]
    assert_repeated(lab)


# ------------------------------------------------------------------ what acts when


@pytest.mark.later
def test_codecs_act_on_the_next_round_and_on_their_direction_alone() -> None:
    lab = small()
    lab.run(2)
    lab.set("bits_up", 4)
    lab.run(1)
    lab.set("bits_down", 8)
    lab.run(1)
    up, down = per_record(lab, "nbytes_up"), per_record(lab, "nbytes_down")
    assert up[0] == up[1] > 7.5 * up[2]
    assert down[0] == down[1] == down[2] > 3.9 * down[3]


@pytest.mark.later
def test_the_interval_acts_on_the_running_training_and_the_script_moves_it_too() -> None:
    settings: dict[str, Any] = {"wait_for": 1, "staleness": "polynomial", "cohort_size": 3}
    lab, still = small(6, **settings), small(6, **settings)
    lab.run(2)
    lab.set("local_steps", 20)
    lab.run(2)
    lab.set("local_steps", 2)
    lab.set("bits_up", 4)
    run, unmoved = lab.run(), still.run()
    assert run.moves[0] == Move(2, "local_steps", 20)
    assert run.history.column("step") == [1, 2, 3, 4, 5, 6]
    assert sum(run.history.column("num_stale")) > 0, "late updates outlive a move"
    seconds = run.history.column("seconds")
    assert seconds == sorted(seconds), "and so does the clock"
    assert run.history[:2] == unmoved.history[:2]
    assert run.history[2]["loss"] < unmoved.history[2]["loss"], "20 steps learn more than 1"
    assert run.history[2]["nbytes"] == unmoved.history[2]["nbytes"], "and cost no byte"
    code = lab.script()
    assert "interval = 20" in code
    assert code.count("fedavg(") == 1
    assert_repeated(lab)
    assert "interval =" not in still.script(), "who did not move it needs no more than fedavg"


@pytest.mark.later
def test_a_move_makes_clients_forget_and_the_legend_says_so() -> None:
    lab = small(top_k=0.1, error_feedback=True, cohort_size=5)
    run = lab.run(2)
    links = run.training.channel.state_dict()["links"]
    assert any("residual" in str(link) for link in links)
    assert "reset" not in lab.describe(run)
    lab.set("bits_down", 8)  # another direction
    assert "reset" not in lab.describe(run)
    lab.set("top_k", 0.3)
    assert "reset the residuals" in lab.describe(run)
    links = run.training.channel.state_dict()["links"]
    assert not any("residual" in str(link) for link in links)


def test_nothing_to_forget_without_error_feedback() -> None:
    lab = small(top_k=0.1)
    run = lab.run(1)
    lab.set("top_k", 0.3)
    lab.set("error_feedback", True)
    assert "reset" not in lab.describe(run)


def test_codecs() -> None:
    assert model_codec(32) == update_codec(32, 1, True) == Identity()
    assert model_codec(8) == Pipeline(Quantize(8), Entropy())
    assert update_codec(4, 1, False) == Pipeline(Quantize(4, stochastic=True), Entropy())
    assert update_codec(32, 0.1, False) == Pipeline(TopK(0.1), Entropy())
    remembering = update_codec(4, 0.1, True)
    assert isinstance(remembering, ErrorFeedback)
    assert remembering.codec == Pipeline(TopK(0.1), Quantize(4), Entropy())


@pytest.mark.later
def test_who_waits_for_fewer_has_late_updates_and_is_done_sooner() -> None:
    patient, hasty = small(cohort_size=5), small(cohort_size=5, wait_for=1)
    for lab in (patient, hasty):
        lab.run()
    ends = [lab.current.history[-1]["seconds"] for lab in (patient, hasty)]
    assert ends[1] < ends[0] / 2
    assert sum(hasty.current.history.column("num_late")) > 0


# ------------------------------------------------------------------ which settings are shown


@pytest.mark.later
def test_only_what_is_shown_can_be_set_and_the_rest_stays() -> None:
    lab = small(2, show=("alpha", "cohort_size"), bits_up=4)
    assert set(lab.settings) == {"alpha", "cohort_size"}
    with pytest.raises(KeyError, match="bits_up"):
        lab.set("bits_up", 8)
    run = lab.run()
    assert run.history[-1]["nbytes_up"] < run.history[-1]["nbytes_down"] / 7
    assert_repeated(lab)


def test_mistakes_are_named() -> None:
    with pytest.raises(TypeError, match=r"\['top'\].*'top_k'"):
        FedAvgLab(DATA, show=("top",))
    with pytest.raises(TypeError, match=r"\['bits'\]"):
        FedAvgLab(DATA, bits=4)
    lab = small(wait_for=3)
    with pytest.raises(ValueError, match="wait_for=3: the cohort has only 2 clients"):
        lab.run()
    assert lab.current is None
    lab.set("wait_for", None)
    lab.run(1)


def test_values_of_your_own_are_among_the_options() -> None:
    lab = small(alpha=0.5, cohort_size=3)
    assert lab.settings["alpha"].options == [0.03, 0.1, 0.3, 0.5, 1, 10, 100]
    assert lab.run(1).history[0]["num_arrived"] == 3


# ------------------------------------------------------------------ the picture


@pytest.mark.later
def test_the_picture_has_bytes_by_direction_ghosts_and_marks() -> None:
    lab = small(show=(*CODECS, "alpha"))
    lab.run()
    lab.set("alpha", 0.1)
    lab.run(3)
    lab.set("top_k", 0.1)
    lab.run()
    picture = picture_of(lab)
    left, right = picture.axes
    assert [(axes.plot.y, axes.plot.x) for axes in (left, right)] == [
        ("accuracy", "nbytes"),
        ("loss", "step"),
    ]
    assert [line.current for line in left.lines] == [False, True]
    assert right.marks == [(3, "top-k up 10 %")]
    ledger = {name: nbytes for name, nbytes, _ in picture.ledger}
    last = lab.current.history[-1]
    assert ledger["up: updates"] == last["nbytes_up"]
    assert ledger["down: model"] == last["nbytes_down"]
    assert sum(ledger.values()) == lab.current.training.channel.nbytes()
    assert "alpha 0.1" in picture.summary()
    ElementTree.fromstring(lay_out(picture).svg())


def test_a_round_is_called_one_and_failures_have_a_row_once_there_are_some() -> None:
    lab = small(3)
    lab.run()
    picture = picture_of(lab)
    assert picture.status == "run 1 finished, round 3 of 3"
    assert [axes.step for axes in picture.axes] == ["round", "round"]
    assert ">round</text>" in lay_out(picture).svg()
    assert ">step</text>" not in lay_out(picture).svg()
    assert [name for name, _, _ in picture.ledger] == ["down: model", "up: updates"]
    failed = {"failed": torch.ones((), dtype=torch.uint8)}
    lab.current.training.channel.send("client_0", "server", "control", failed)
    name, nbytes, words = picture_of(lab).ledger[-1]
    assert (name, words.endswith("in 1 message")) == ("up: failures", True)
    assert nbytes > 0


@pytest.mark.later
def test_no_label_of_a_move_lies_on_another() -> None:
    lab = small(10)
    for bits in (1, 2, 4, 8, 1, 2, 4, 8):
        lab.run(1)
        lab.set("bits_up", bits)
    lab.run()
    axes = picture_of(lab).axes[1]
    labels = [mark for mark in frame_of(axes, 0).flags(axes.marks) if hasattr(mark, "words")]
    assert len(labels) == 8
    assert "update up 1 bit" in {label.words for label in labels}
    assert all(b.y - a.y >= 13 for a, b in pairwise(labels))


@pytest.mark.later
def test_a_move_is_named_right_of_its_line_wherever_there_is_room() -> None:
    lab = small(10)
    for bits in (2, 8):
        lab.run(4)
        lab.set("bits_up", bits)
    lab.run()
    axes = picture_of(lab).axes[1]
    frame = frame_of(axes, 0)
    early, late = (mark for mark in frame.flags(axes.marks) if hasattr(mark, "words"))
    assert (early.anchor, early.x) == ("start", frame.x(4) + 4)
    assert (late.anchor, late.x) == ("end", frame.x(8) - 4), "here it would leave the frame"


def test_the_right_plot_can_be_over_virtual_time() -> None:
    lab = small(2, second=Plot("accuracy", "seconds"), wait_for=1)
    lab.run()
    points = picture_of(lab).axes[1].lines[0].points
    assert [x for x, _ in points] == lab.current.history.column("seconds")


def test_panel_ticks_what_is_on_or_off_and_shows_who_is_waited_for() -> None:
    widgets = pytest.importorskip("ipywidgets")
    from fltoolkit_course.labs import Panel

    lab = small(show=("error_feedback", "masked", "wait_for"))
    panel = Panel(lab)
    for key in ("error_feedback", "masked"):
        assert isinstance(panel.controls[key], widgets.Checkbox)
        panel.controls[key].value = True
        assert lab.values[key] is True
        lab.set(key, False)
        assert panel.controls[key].value is False
    assert panel.controls["wait_for"].label == "all"
    assert panel.speed.description == "rounds per second"
