"""Labs without a browser: settings, moves, runs, and the script that does it again."""

import subprocess
import sys
from pathlib import Path

import pytest
from course.labs.few_digits import SECONDS, assert_repeated, by_script, small, wait_until

from fltoolkit.data import load
from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.labs.lab import Move
from fltoolkit_course.quiz import quiz


# ------------------------------------------------------------------ moves and scripts
@pytest.mark.later
def test_the_script_is_the_file_of_the_training_and_the_moves_at_their_steps(
    tmp_path: Path,
) -> None:
    lab = ThresholdLab("digits", num_epochs=3, cut=2, threshold=0.3)
    lab.run(30)
    lab.set("threshold", 0.05)
    lab.set("bits_down", 4)
    lab.run(20)
    lab.set("bits_up", 16)
    lab.run(7)
    lab.set("bits_up", 2)  # after the last record
    lab.stop()
    assert lab.current.moves[:-1] == [
        Move(30, "threshold", 0.05),
        Move(30, "bits_down", 4),
        Move(50, "bits_up", 16),
    ]
    code = lab.script()
    assert "fltoolkit_course" not in code
    lines = code[code.index("history = History()") :].splitlines()[2:-2]
    assert [line.strip() for line in lines] == [
        'if record["step"] == 30:',
        'training.change("threshold", 0.05)',
        'training.change("bits_down", 4)',
        'if record["step"] == 50:',
        'training.change("bits_up", 16)',
        'if record["step"] == 57:',
        "break  # stopped",
    ]
    file = tmp_path / "again.py"
    file.write_text(code, encoding="utf-8")
    alone = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert alone.stdout.splitlines() == assert_repeated(lab)["printed"]


def test_each_live_setting_acts_from_the_next_record_on() -> None:
    lab, still = small(threshold=0.0), small(threshold=0.0)
    lab.run(10)
    up, down = (lab.current.history[-1][key] // 10 for key in ("nbytes_up", "nbytes_down"))
    lab.set("bits_up", 8)
    lab.set("bits_down", 2)
    lab.run(1)
    assert lab.current.history[:10] == still.run(11).history[:10]
    last, before = lab.current.history[10], lab.current.history[9]
    assert last["nbytes_up"] - before["nbytes_up"] < up / 3.8
    assert last["nbytes_down"] - before["nbytes_down"] < down / 14
    for threshold in (0.3, 0.2, 0.5, 0.5):
        lab.set("threshold", threshold)
    assert lab.current.moves[2:] == [Move(11, "threshold", 0.5)], "the last counts"
    assert lab.current.now()["threshold"] == 0.5
    assert lab.run(1).history[-1]["threshold"] == 0.5


@pytest.mark.later
def test_a_move_before_the_first_record_is_how_the_run_began() -> None:
    lab = small(threshold=0.3)
    lab._going()
    lab.set("threshold", 0.07)
    lab.set("bits_up", 4)
    run = lab.run(30)
    assert run.moves == []
    assert (run.settings["threshold"], run.settings["bits_up"]) == (0.07, 4)
    assert run.history[0]["threshold"] == 0.07
    lab.stop()
    assert_repeated(lab)


def test_a_failed_run_can_be_done_again_up_to_its_failure() -> None:
    data = load("digits").flat()
    data.x_train[7] = float("nan")
    lab = ThresholdLab(data, num_epochs=2)
    with pytest.raises(FloatingPointError):
        lab.run()
    assert lab.current.status == "failed"
    assert 0 < len(lab.current.history) < 46
    assert "break  # FloatingPointError: party 'bob'" in lab.script()
    assert by_script(lab)["history"] == lab.current.history


def test_wrong_settings_say_what_is_right() -> None:
    with pytest.raises(TypeError, match=r"treshold.*has the settings .*'threshold'"):
        ThresholdLab(treshold=0.1)
    lab = small(threshold=0.123)
    assert 0.123 in lab.settings["threshold"].options
    assert lab.settings["threshold"].options == sorted(lab.settings["threshold"].options)
    with pytest.raises(ValueError, match=r"bits_up=7: choose from \[2, 4.*bits_up=7\)"):
        lab.set("bits_up", 7)
    with pytest.raises(KeyError, match="no_such"):
        lab.set("no_such", 1)
    with pytest.raises(ValueError, match="steps_per_second=0"):
        lab.pace(0)


# ------------------------------------------------------------------ runs
def test_stop_then_start_is_a_new_run() -> None:
    lab, heard = small(1000), []
    lab.listen(lambda: heard.append(lab.current and lab.current.number))
    lab.set("seed", 1)
    lab.start()
    wait_until(lambda: len(lab.current.history) > 3)
    first = lab.current
    lab.stop()
    second = lab.start()  # at once, while the first may still be in its last record
    assert second is not first
    wait_until(lambda: len(second.history) > 3)
    assert first.runner.wait(SECONDS)
    assert first.status == "stopped"
    lab.pause()
    assert lab.wait(SECONDS)
    assert heard[0] is None
    assert heard[-1] == 2
    lab.stop()
    assert lab.wait(SECONDS)


@pytest.mark.later
def test_in_state_c_the_announcement_of_the_state_crosses_and_nothing_else() -> None:
    """What the lab and the hint of the quiz say is what is measured."""
    lab = ThresholdLab(num_epochs=4, threshold=1.0)
    lab.run()
    first, last = (record["nbytes"] for record in lab.current.history.having("accuracy")[-2:])
    assert {record["state"] for record in lab.current.history[-23:]} == {"C"}
    assert last - first == 14
    assert lab.board.states["C"].words == "announcement only"
    hints = dict(quiz.answers["learning in silence"]().hints)
    assert "only the announcement of the state crosses: 14 bytes" in hints["b"]
