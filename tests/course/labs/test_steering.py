"""Labs without a browser: settings, moves, runs, and the script that does it again."""

import random

import pytest
from course.labs.few_digits import DATA, SECONDS, assert_repeated, by_script, small, wait_until

from fltoolkit.data import load
from fltoolkit_course.labs import ThresholdLab
from fltoolkit_course.labs.board import Move


@pytest.mark.slow
def test_the_script_gives_the_same_records_whatever_was_done_by_hand() -> None:
    lab = small(40_000, threshold=0.3, bits_up=8, seed=3)  # it is stopped, and never finishes
    lab.pace(float("inf"))
    lab.start()
    rng = random.Random(0)
    for number in range(12):
        wait_until(lambda n=number: len(lab.current.history) > 20 * n)
        key = rng.choice(["threshold", "bits_up", "bits_down"])
        lab.set(key, rng.choice(lab.settings[key].options))
        if number == 5:
            lab.pause()
            assert lab.wait(SECONDS)
            lab.set("threshold", 0.05)
            lab.step(3)
            assert lab.wait(SECONDS)
            lab.start()
    lab.stop()
    assert lab.wait(SECONDS)
    run = lab.current
    assert run.status == "stopped"
    assert len(run.moves) > 5

    again = assert_repeated(lab)
    nbytes, accuracy = run.history[-1]["nbytes"], run.history.having("accuracy")[-1]["accuracy"]
    assert again["printed"] == [
        f"{len(run.history)} steps, {nbytes:,} bytes",
        f"accuracy {accuracy:.4f}",
    ]


@pytest.mark.later
def test_the_script_is_plain_code_with_the_moves_at_their_steps() -> None:
    lab = small(threshold=0.3)
    lab.run(30)
    lab.set("threshold", 0.05)
    lab.set("bits_down", 4)
    lab.run(20)
    lab.set("bits_up", 16)
    lab.run(7)
    lab.stop()
    assert lab.current.moves == [
        Move(30, "threshold", 0.05),
        Move(30, "bits_down", 4),
        Move(50, "bits_up", 16),
    ]
    code = lab.script()
    assert "ThresholdLab" not in code.split('"""')[2], "the package's own functions only"
    body = code[code.index("for record in") :]
    assert body.splitlines()[:9] == [
        "for record in history.follow(records):",
        '    if record["step"] == 30:',
        "        gate.threshold = 0.05",
        '        channel.change_codec("gradients", Pipeline(Quantize(4)))',
        '    if record["step"] == 50:',
        '        channel.change_codec("activations", Pipeline(Half()))',
        '    if record["step"] == 57:',
        "        break  # stopped",
        'print(f"{len(history)} steps, {channel.nbytes():,} bytes")',
    ]
    assert by_script(lab)["history"] == lab.current.history


@pytest.mark.slow
def test_without_the_moves_the_numbers_differ() -> None:
    still, moved = small(threshold=0.3), small(threshold=0.3)
    still.run()
    moved.run(60)
    moved.set("threshold", 0.0)
    moved.run()
    assert still.current.history[:60] == moved.current.history[:60]
    assert still.current.history[-1]["nbytes"] < moved.current.history[-1]["nbytes"]


def test_each_live_setting_acts_from_the_next_record_on() -> None:
    lab = small(threshold=0.0)
    lab.run(10)
    up, down = (lab.current.history[-1][key] // 10 for key in ("nbytes_up", "nbytes_down"))
    lab.set("bits_up", 8)
    lab.set("bits_down", 2)
    lab.run(1)
    last, before = lab.current.history[10], lab.current.history[9]
    assert last["nbytes_up"] - before["nbytes_up"] < up / 3.8
    assert last["nbytes_down"] - before["nbytes_down"] < down / 14
    lab.set("threshold", 0.5)
    assert lab.run(1).history[-1]["threshold"] == 0.5


def test_of_several_moves_between_two_records_the_last_counts() -> None:
    lab = small()
    lab.run(5)
    for threshold in (0.3, 0.2, 0.5):
        lab.set("threshold", threshold)
    lab.set("threshold", 0.5)
    assert lab.current.moves == [Move(5, "threshold", 0.5)]
    assert lab.current.now()["threshold"] == 0.5


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
    assert by_script(lab)["history"] == run.history


def test_a_move_after_the_last_record_is_left_out_of_the_script() -> None:
    lab = small()
    lab.run(5)
    lab.set("threshold", 0.5)
    lab.stop()
    assert "0.5" not in lab.script().split('"""')[2]
    assert by_script(lab)["history"] == lab.current.history


def test_a_failed_run_can_be_done_again_up_to_its_failure() -> None:
    data = load("digits").flat()
    data.x_train[7] = float("nan")
    lab = ThresholdLab(data, num_epochs=2)
    with pytest.raises(FloatingPointError):
        lab.run()
    assert lab.current.status == "failed"
    assert 0 < len(lab.current.history) < 46
    assert "break  # FloatingPointError: party 'bob'" in lab.script()
    assert by_script(lab, data=data)["history"] == lab.current.history


def test_data_of_your_own_stay_yours() -> None:
    lab = small(3)
    assert lab.run().training.total == 24
    assert "load(" not in lab.script()
    with pytest.raises(NameError, match="data"):
        exec(lab.script(), {})
    assert by_script(lab, data=DATA)["history"] == lab.current.history


def test_named_data_are_loaded_by_the_script() -> None:
    lab = ThresholdLab("digits", num_epochs=1)
    lab.run()
    assert 'data = load("digits").flat()' in lab.script()
    assert by_script(lab, data=None)["history"] == lab.current.history


def test_wrong_settings_say_what_is_right() -> None:
    with pytest.raises(TypeError, match=r"treshold.*has the settings \['threshold'"):
        ThresholdLab(treshold=0.1)
    lab = small(threshold=0.123)
    assert 0.123 in lab.settings["threshold"].options
    assert lab.settings["threshold"].options == sorted(lab.settings["threshold"].options)
    with pytest.raises(ValueError, match=r"bits_up=7: choose from \[2, 4.*bits_up=7\)"):
        lab.set("bits_up", 7)
    with pytest.raises(KeyError, match="no_such"):
        lab.set("no_such", 1)
    with pytest.raises(ValueError, match="nothing was run yet"):
        lab.script()
    with pytest.raises(ValueError, match="steps_per_second=0"):
        lab.pace(0)
    lab.run(1)
    with pytest.raises(ValueError, match=r"no run 3; this lab has the runs \[1\]"):
        lab.script(3)


def test_stop_then_start_is_a_new_run_and_reset_forgets_all() -> None:
    lab = small(1000)
    lab.start()
    wait_until(lambda: len(lab.current.history) > 3)
    first = lab.current
    lab.stop()
    second = lab.start()  # at once, while the first may still be in its last record
    assert second is not first
    wait_until(lambda: len(second.history) > 3)
    assert first.runner.wait(SECONDS)
    assert first.status == "stopped"
    lab.reset()
    assert lab.current is None
    assert second.runner.wait(SECONDS)
    assert second.status == "stopped"
    assert lab.wait(0)
    assert lab.start().number == 1
    lab.stop()


def test_a_run_without_records_is_not_kept() -> None:
    lab = small()
    run = lab._going()
    run.runner.run(0)
    with pytest.raises(ValueError, match="run 1 has made no record yet"):
        lab.script()
    assert repr(run) == "<Run 1 paused: 0 records, 0 moves>"
    lab.stop()
    lab.run(1)
    assert [run.number for run in lab.runs] == [1]


def test_listeners_hear_of_the_current_run_only() -> None:
    lab, heard = small(), []
    lab.listen(lambda: heard.append(len(lab.current.history) if lab.current else None))
    lab.set("seed", 1)
    lab.run(3)
    assert heard[0] is None
    assert heard[-1] == 3
    run = lab.current
    lab.reset()
    count = len(heard)
    run.runner.stop()
    assert len(heard) == count


def test_a_pace_to_watch_holds_for_start_and_not_for_run() -> None:
    lab = small(1000)
    lab.pace(0.001)
    assert len(lab.run(50).history) == 50
    lab.start()
    assert not lab.wait(0.05)
    assert len(lab.current.history) == 50
    lab.pace(1e9)
    wait_until(lambda: len(lab.current.history) > 60)
    lab.stop()


@pytest.mark.later
def test_a_run_with_the_settings_of_an_earlier_one_repeats_it() -> None:
    lab = small(2)
    one, two = lab.run(), lab.run()
    assert lab.repeated(one) is None
    assert lab.repeated(two) is one
    assert two.history == one.history
    lab.set("what_if", 0.5)  # changes what is shown, not the training
    assert lab.repeated(lab.run()) is one
    lab.set("seed", 3)
    assert lab.repeated(lab.run()) is None
    moved = lab.run(2)
    assert lab.repeated(moved).number == 4
    lab.set("threshold", 0.7)
    assert lab.repeated(moved) is None
    lab.run()
    lab.set("threshold", 0.1)
    assert lab.repeated(lab.run(2)).number == 4, "not the one that was moved"
