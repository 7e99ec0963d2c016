"""The FedAvg lab: what acts when, and the script that does a run again."""

from typing import Any

import pytest
from course.labs.few_digits import FEW as DATA
from course.labs.few_digits import assert_repeated, per_record
from course.labs.few_digits import small_fedavg as small

from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit_course.labs import FedAvgLab
from fltoolkit_course.labs.lab import Move
from fltoolkit_course.labs.train_fedavg import FedAvgTraining

CODECS = ("bits_down", "bits_up", "top_k", "error_feedback")


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
    assert_repeated(lab)


def test_codecs() -> None:
    def codec(kind: str, **settings: Any) -> Any:
        return getattr(FedAvgTraining(DATA, **settings), f"{kind}_codec")()

    assert codec("model") == codec("update", error_feedback=True) == Identity()
    assert codec("model", bits_down=8) == Pipeline(Quantize(8), Entropy())
    assert codec("update", bits_up=4) == Pipeline(Quantize(4, stochastic=True), Entropy())
    assert codec("update", top_k=0.1) == Pipeline(TopK(0.1), Entropy())
    remembering = codec("update", bits_up=4, top_k=0.1, error_feedback=True)
    assert isinstance(remembering, ErrorFeedback)
    assert remembering.codec == Pipeline(TopK(0.1), Quantize(4), Entropy())


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
