"""Labs without a browser: settings, moves, runs, the script that does it again, and the picture."""

import gc
import random
import sys
import time
import weakref
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from fltoolkit.codecs import Identity
from fltoolkit.data import Dataset, load
from fltoolkit.history import History
from fltoolkit.labs import (
    FedAvgLab,
    Lab,
    Move,
    Run,
    Setting,
    ThresholdLab,
)
from fltoolkit.labs.layout import lay_out, merge_short
from fltoolkit.labs.picture import Picture, Trace, compose
from fltoolkit.labs.threshold import codec_of
from fltoolkit.split import LossGate, Progress, State

SECONDS = 60


def few_digits() -> Dataset:
    """512 to train on, 8 batches an epoch, and 100 to test on."""
    data = load("digits").flat()
    train, test = slice(512), slice(100)
    return replace(
        data,
        x_train=data.x_train[train],
        y_train=data.y_train[train],
        x_test=data.x_test[test],
        y_test=data.y_test[test],
    )


DATA = few_digits()


def small(num_epochs: int = 12, **settings: Any) -> ThresholdLab:
    return ThresholdLab(DATA, num_epochs=num_epochs, **{"cut": 2, **settings})


def wait_until(what: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def by_script(lab: Lab, **names: Any) -> dict[str, Any]:
    """What is known after the lab's script was executed, with ``printed`` lines."""
    printed: list[str] = []
    known = {"print": lambda words: printed.append(words), "data": DATA, **names}
    exec(lab.script(), known)
    return {**known, "printed": printed}


def picture_of(lab: Lab) -> Picture:
    traces = {run.number: Trace(lab.board, run.history, run.training.channel) for run in lab.runs}
    for trace in traces.values():
        trace.catch_up()
    return compose(lab, traces)


# ------------------------------------------------------------------ moves, and doing them again


def test_the_script_gives_the_same_records_whatever_was_done_by_hand() -> None:
    lab = small(40, threshold=0.3, bits_up=8, seed=3)
    lab.pace(float("inf"))
    lab.start()
    rng = random.Random(0)
    for number in range(12):
        wait_until(lambda n=number: lab.current.runner.over or len(lab.current.history) > 20 * n)
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
    assert run.status in ("stopped", "finished")
    assert len(run.moves) > 5

    again = by_script(lab)
    assert again["history"] == run.history, "all records, so bytes and accuracy too"
    assert again["channel"].transfers == run.training.channel.transfers
    nbytes, accuracy = run.history[-1]["nbytes"], run.history.having("accuracy")[-1]["accuracy"]
    assert again["printed"] == [
        f"{len(run.history)} steps, {nbytes:,} bytes",
        f"accuracy {accuracy:.4f}",
    ]


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
        *(Move(30, "threshold", 0.05), Move(30, "bits_down", 4), Move(50, "bits_up", 16)),
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


def test_same_settings_same_bytes_and_torchs_generator_untouched() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, two, other = small(3), small(3), small(3, seed=1)
    histories = [lab.run().history for lab in (one, two, other)]
    assert histories[0] == histories[1] != histories[2]
    assert torch.equal(torch.rand(1), expected)


# ------------------------------------------------------------------ settings and runs


def test_settings_that_wait_for_the_next_start() -> None:
    lab = small(2, seed=0)
    lab.run(5)
    lab.set("seed", 4)
    lab.set("cut", 5)
    run = lab.run()
    assert (run.number, run.settings["seed"], run.settings["cut"]) == (1, 0, 2)
    assert run.moves == []
    run = lab.run()
    assert (run.number, run.settings["seed"], run.settings["cut"]) == (2, 4, 5)
    assert [run.number for run in lab.runs] == [1, 2]


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


# ------------------------------------------------------------------ a cell that is run again


class Kernel:
    """What a lab asks of the kernel that it is in: the message on whose behalf code runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.message: dict[str, Any] = {}
        shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: self.message))
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    def run(self, code: str, number: int, **metadata: str) -> None:
        header = {"msg_id": f"execution {number}"}
        self.message = {"header": header, "content": {"code": code}, "metadata": metadata}


def started(make: Callable[[], Lab]) -> Lab:
    lab = make()
    lab.start()
    return lab


LABS = {
    "threshold": lambda: small(10_000),
    "fedavg": lambda: FedAvgLab(DATA, num_rounds=10_000, cohort_size=2, local_steps=1),
}


@pytest.mark.parametrize("make", LABS.values(), ids=LABS)
@pytest.mark.parametrize("named", [True, False], ids=["named cells", "cells by their code"])
def test_a_cell_that_is_run_again_stops_what_it_started(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Lab], named: bool
) -> None:
    kernel = Kernel(monkeypatch)

    def cell(name: str) -> dict[str, str]:
        return {"cellId": name} if named else {}

    kernel.run("one", 1, **cell("one"))
    first, beside = started(make), started(make)  # two labs of one execution
    kernel.run("two", 2, **cell("two"))
    elsewhere = started(make)
    kernel.message = {"header": {"msg_id": "3"}, "content": {"comm_id": "a button"}}
    by_button = started(make)
    kernel.run("one, edited" if named else "one", 4, **cell("one"))
    again = started(make)
    assert first.wait(SECONDS)
    assert beside.wait(SECONDS)
    assert [lab.current.status for lab in (first, beside)] == ["stopped", "stopped"]
    assert not any(lab.current.runner.over for lab in (elsewhere, by_button, again))
    for lab in (elsewhere, by_button, again):
        lab.stop()
        assert lab.wait(SECONDS)


def test_a_lab_that_is_gone_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(monkeypatch).run("one", 1)
    lab = weakref.ref(small())
    gc.collect()
    assert lab() is None


@pytest.mark.slow
def test_a_real_kernel_runs_a_cell_again() -> None:
    """Three executions of a cell and one of another: of four trainings two go on."""
    client = pytest.importorskip("jupyter_client")
    manager, kernel = client.manager.start_new_kernel(startup_timeout=5 * SECONDS)
    try:
        code = (
            "import threading; from fltoolkit.labs import ThresholdLab\n"
            "try: old = lab\n"
            "except NameError: old = None\n"
            "lab = ThresholdLab(num_epochs=100_000); lab.start()\n"
            "if old: assert old.wait(60) == stops, (old, stops)"
        )
        for cell, stops in [("a", True), ("a", True), ("b", False), ("a", False)]:
            content = {"code": f"stops = {stops}\n{code.replace('60', '60' if stops else '0.2')}"}
            content |= {"silent": False, "store_history": True, "user_expressions": {}}
            message = kernel.session.msg("execute_request", content, metadata={"cellId": cell})
            kernel.shell_channel.send(message)
            reply = kernel.get_shell_msg(timeout=SECONDS)["content"]
            assert reply["status"] == "ok", reply
        kernel.execute("names = [t.name for t in threading.enumerate()]", reply=True)
        found = kernel.execute(
            "", user_expressions={"n": "names.count('fltoolkit-runner')"}, reply=True
        )
        assert found["content"]["user_expressions"]["n"]["data"]["text/plain"] == "2"
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


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


def test_codecs_by_bits() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    sizes = {bits: len(codec_of(bits).encode({"h": values})) for bits in (32, 16, 8, 6, 4, 2)}
    assert codec_of(32) == Identity()
    for bits, nbytes in sizes.items():
        assert 0 <= nbytes - 1000 * bits / 8 < 60


# ------------------------------------------------------------------ what if


def states(segments: list[tuple[int, int, str]]) -> str:
    return "".join(state * (end - start + 1) for start, end, state in segments)


def test_what_if_with_the_threshold_that_was_is_what_was() -> None:
    lab = small(30, threshold=0.15)
    run = lab.run(220)  # the last period is not over
    guess = lab.what_if(0.15)
    assert states(guess.segments) == "".join(run.history.column("state"))
    assert guess.nbytes == pytest.approx(run.history[-1]["nbytes"])
    assert {"A", "B", "C"} == set(run.history.column("state"))
    assert all(a[1] + 1 == b[0] for a, b in zip(guess.segments, guess.segments[1:], strict=False))
    assert all(a[2] != b[2] for a, b in zip(guess.segments, guess.segments[1:], strict=False))


def test_what_if_orders_thresholds_by_bytes_and_says_that_it_guesses() -> None:
    lab = small(30, threshold=0.0)
    lab.run()
    costs = [lab.what_if(threshold).nbytes for threshold in (0.0, 0.05, 0.3, 1.0)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == lab.current.history[-1]["nbytes"]
    assert costs[-1] < costs[0] / 4
    sentence = lab.what_if(1.0).sentence
    assert "estimate" in sentence
    assert "instead of" in sentence


def test_what_if_prices_a_state_that_was_never_seen() -> None:
    lab = small(30, threshold=0.0)
    run = lab.run()
    guess = states(lab.what_if(0.3).segments)
    up = run.history[-1]["nbytes_up"] / len(run.history)
    both = run.history[-1]["nbytes"] / len(run.history)
    expected = guess.count("A") * both + guess.count("B") * up
    assert lab.what_if(0.3).nbytes == pytest.approx(expected)


def test_what_if_needs_a_run() -> None:
    with pytest.raises(ValueError, match="nothing was run yet"):
        small().what_if(0.1)
    lab = small()
    lab._going()
    assert lab.what_if(0.1).segments == []
    assert lab.strips()[0].note == lab.what_if(0.3).sentence
    lab.run(1)
    assert lab.what_if(0.1).segments == [(1, 1, "A")]


# ------------------------------------------------------------------ the picture


def two_runs() -> ThresholdLab:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.05)
    lab.run()
    lab.set("bits_up", 4)
    lab.run(100)
    return lab


def test_a_trace_catches_up_to_the_same_picture() -> None:
    lab = small(20, threshold=0.3)
    run = lab._going()
    often = Trace(lab.board, run.history, run.training.channel)
    for _ in range(30):
        lab.run(5)
        often.catch_up()
    once = Trace(lab.board, run.history, run.training.channel)
    once.catch_up()
    assert compose(lab, {1: often}) == compose(lab, {1: once})
    assert states(once.segments) == "".join(run.history.column("state"))
    for kind, (messages, nbytes) in once.tally.items():
        assert nbytes == run.training.channel.nbytes(kind=kind)
        assert messages == sum(t.kind == kind for t in run.training.channel.transfers)


def test_the_band_is_the_gates() -> None:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.1)
    run = lab.run()
    trace = Trace(lab.board, run.history, run.training.channel)
    trace.catch_up()
    gate, expected = LossGate(0.3), {}
    for record in run.history:
        gate.threshold = float(record["threshold"])
        if gate.checks:
            expected[record["step"]] = (max(gate.band[0], 0.0), gate.band[1])
        if "checked_loss" in record:
            gate.check(Progress(0, float(record["checked_loss"]), 0))
    drawn = {
        step: (low, high)
        for start, end, low, high in trace.bands
        for step in range(int(start), int(end) + 1)
    }
    assert drawn.keys() == expected.keys()
    for step, band in expected.items():
        assert drawn[step] == pytest.approx(band)


def test_the_svg_shows_states_by_letter_and_height_marks_and_ledger() -> None:
    lab = two_runs()
    picture = picture_of(lab)
    root = ElementTree.fromstring(lay_out(picture).svg())
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in root.iter(f"{space}text")]
    title = root.find(f"{space}title")
    assert title is not None
    assert title.text == picture.summary()
    assert {"A", "B", "C"} <= set(words)
    assert "nan" not in lay_out(picture).svg()
    assert "threshold 0.05" not in words, "marks are those of the current run"
    assert any("run 1: threshold 0.3" in (word or "") for word in words)
    assert "threshold 0.05 from step 60" in " ".join(word or "" for word in words)
    ledger = {name: nbytes for name, nbytes, _ in picture.ledger}
    assert sum(ledger.values()) == lab.current.training.channel.nbytes()
    assert ledger["up: activations"] == lab.current.history[-1]["nbytes_up"]

    looks = lab.board.states.values()
    assert len({look.height for look in looks}) == len({look.color for look in looks}) == 3
    assert set(lab.board.states) == {state.value for state in State}


def test_a_mark_stands_where_the_move_was_made() -> None:
    lab = small(20, threshold=0.3)
    lab.run(60)
    lab.set("threshold", 0.05)
    lab.run(30)
    over_bytes, over_steps = picture_of(lab).axes
    nbytes = lab.current.history[59]["nbytes"]
    assert over_bytes.marks == [(nbytes, "threshold 0.05")]
    assert over_steps.marks == [(60, "threshold 0.05")]
    assert over_bytes.limits()[0][1] == lab.current.history[-1]["nbytes"], "as far as was sent"


def test_the_figure_says_what_the_svg_says() -> None:
    picture = picture_of(two_runs())
    root = ElementTree.fromstring(lay_out(picture).svg())
    written = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    made = lay_out(picture).figure()
    renderer = FigureCanvasAgg(made).get_renderer()
    texts = [artist for artist in made.artists if isinstance(artist, Text)]
    assert [text.get_text() for text in texts] == written
    width, height = made.get_size_inches() * 96
    for text in texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= made.bbox.x1 + 1, text
    assert (width, height) == (float(root.attrib["width"]), float(root.attrib["height"]))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_pictures_of_runs_that_have_hardly_begun(count: int) -> None:
    lab = small()
    assert picture_of(lab).summary().startswith("Threshold lab: not started")
    lab._going()
    if count:
        lab.run(count)
    picture = picture_of(lab)
    ElementTree.fromstring(lay_out(picture).svg())
    FigureCanvasAgg(lay_out(picture).figure()).draw()
    assert (f"step {count} of 96" in picture.status) == bool(count)


def test_many_short_states_stay_few_boxes() -> None:
    segments = [(k, k, "ABC"[k % 3]) for k in range(1, 5001)]
    drawn = merge_short(segments, 5000, 200)
    assert len(drawn) <= 200
    assert drawn[0][0] == 1
    assert drawn[-1][1] == 5000
    assert merge_short(segments[:9], 9, 200) == segments[:9]


# ------------------------------------------------------------------ another lab on the same base


class Counting(Lab):
    """The least a lab can be: no strip, no gate."""

    title = "Counting"
    settings: Mapping[str, Setting] = {"step_size": Setting("step size", (1, 2, 5), "now")}
    board = replace(ThresholdLab.board, states={}, checked="", kinds={"update": "up"})

    def begin(self, values: Any) -> Any:
        size = SimpleNamespace(step_size=values["step_size"])
        channel = SimpleNamespace(transfers=[])

        def records() -> Iterator[dict[str, Any]]:
            total = 0
            for step in range(1, 11):
                total += size.step_size
                yield {"step": step, "nbytes": total, "accuracy": total / 100, "loss": 1.0}

        return SimpleNamespace(
            records=records(),
            channel=channel,
            total=None,
            apply=lambda key, value: setattr(size, key, value),
        )


def test_the_base_knows_nothing_of_thresholds() -> None:
    lab = Counting(step_size=2)
    lab.run(4)
    lab.set("step_size", 5)
    run: Run = lab.run()
    assert run.history.column("nbytes") == [2, 4, 6, 8, 13, 18, 23, 28, 33, 38]
    assert isinstance(run.history, History)
    picture = picture_of(lab)
    assert "run 1: step size 2, step size 5 from step 4: 38.0 % for 38 B" in picture.summary()
    ElementTree.fromstring(lay_out(picture).svg())
    with pytest.raises(NotImplementedError):
        lab.script()
