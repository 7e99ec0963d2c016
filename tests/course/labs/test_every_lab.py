"""What holds for each lab: the same seed, the length of a run, its script, and its panel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from course.labs.few_digits import assert_repeated, small, small_fedavg

from fltoolkit_course.labs import Lab, Panel

# By lab: how to make a small one, and the attribute that says how long a run is.
LABS = [(small, "num_epochs"), (small_fedavg, "num_rounds")]
each_lab = pytest.mark.parametrize(("make", "length"), LABS, ids=("threshold", "fedavg"))
Make = Callable[..., Lab]


# What can be moved while a training runs; everything else waits for the next start.
LIVE = {
    "Threshold": {"threshold", "bits_up", "bits_down"},
    "FedAvg": {"bits_down", "bits_up", "top_k", "error_feedback", "local_steps"},
}


@pytest.mark.later
@each_lab
def test_everything_else_waits_for_the_next_start(make: Make, length: str) -> None:
    lab = make(4)
    waiting = {key for key, setting in lab.settings.items() if setting.acts == "at start"}
    assert lab.settings.keys() - waiting == LIVE[lab.title.split()[0]]
    lab.run(2)
    began, chosen = lab.current.settings, {}
    for key in waiting:
        chosen[key] = next(v for v in lab.settings[key].options if v not in (began[key], None))
    chosen |= {key: 1 for key in ("cohort_size", "wait_for") if key in chosen}
    for key, value in chosen.items():
        lab.set(key, value)
    first = lab.run()
    assert (first.number, first.moves, first.settings) == (1, [], began)
    second = lab.run()
    assert (second.number, second.settings) == (2, {**began, **chosen})
    assert first.history[0] != second.history[0]
    assert [run.number for run in lab.runs] == [1, 2]


@pytest.mark.later
@each_lab
def test_the_script_stops_where_the_run_was_stopped(make: Make, length: str) -> None:
    lab = make()
    lab.run(4)
    lab.stop()
    assert len(assert_repeated(lab)["history"]) == 4
    assert lab.current.runner.over


@pytest.mark.slow
@each_lab
def test_same_seed_same_bytes_and_a_script_has_the_length_of_its_run(
    make: Make, length: str
) -> None:
    before = torch.get_rng_state()
    lab = make(4)
    one, two = lab.run(), lab.run()
    assert one.history == two.history
    lab.set("seed", 3)
    other = lab.run()
    assert other.history != one.history
    assert torch.equal(torch.get_rng_state(), before)
    setattr(lab, length, 8)
    assert_repeated(lab)
    lab.run()
    assert len(lab.current.history) == 2 * len(other.history)
    assert_repeated(lab)


@each_lab
def test_all_that_can_be_chosen_is_described_and_works(make: Make, length: str) -> None:
    pytest.importorskip("ipywidgets")
    lab = make()
    panel = Panel(lab)
    assert set(panel.controls) == set(lab.settings)
    for key, control in panel.controls.items():
        assert control.description == lab.settings[key].words
        for place, value in enumerate(lab.settings[key].options):
            control.index = place
            assert lab.values[key] == value
            assert lab.say(key, value) in panel.note.value.replace("&gt;", ">")
    for button in panel.buttons.values():
        assert button.description
        assert button.tooltip
    assert 'role="status"' in panel.note.value


CODECS = [(2, "top_k", 0.1), (1, "bits_up", 4), (0, "error_feedback", True), (0, "bits_down", 8)]
MOVED = [  # a lab, and its moves: after how many more records, what, and to which value
    (lambda: small_fedavg(alpha=0.1, local_steps=5, cohort_size=5, wait_for=2, seed=3), []),
    (lambda: small_fedavg(wait_for=1, cohort_size=5, staleness="polynomial", bits_down=8), []),
    (lambda: small_fedavg(bits_up=4, top_k=0.1, error_feedback=True, masked=True), []),
    (lambda: small_fedavg(8, bits_up=8), CODECS),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "moves"), MOVED)
def test_the_script_gives_the_same_records_with_all_moves(make: Make, moves: list[Any]) -> None:
    lab = make()
    for records, key, value in moves:
        if records:
            lab.run(records)
        lab.set(key, value)
    run = lab.run()
    assert [(move.key, move.value) for move in run.moves] == [move[1:] for move in moves]
    again = assert_repeated(lab)
    assert f"{run.history[-1]['nbytes']:,} bytes" in again["printed"][0]
