"""A lab in a notebook: a cell that is run again, and a lab of one's own."""

import gc
import sys
import weakref
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from course.labs.few_digits import DATA, SECONDS, picture_of, small

from fltoolkit.codecs import Identity, Pipeline, Quantize
from fltoolkit.history import History
from fltoolkit_course.labs import Board, Control, FedAvgLab, Lab, Plot, ThresholdLab
from fltoolkit_course.labs.board import Run
from fltoolkit_course.labs.layout import lay_out


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


@pytest.mark.later
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
            "import threading; from fltoolkit_course.labs import ThresholdLab\n"
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
        code = (  # who was stopped just now may still make its last record
            "import time\ndef going():\n"
            "    return [t.name for t in threading.enumerate()].count('fltoolkit-runner')\n"
            "while going() > 2: time.sleep(0.01)"
        )
        found = kernel.execute(code, user_expressions={"n": "going()"}, reply=True, timeout=SECONDS)
        assert found["content"]["user_expressions"]["n"]["data"]["text/plain"] == "2"
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


class Counting(Lab):
    """The least a lab can be: no strip, no gate."""

    title = "Counting"
    settings: Mapping[str, Control] = {"step_size": Control("step size", (1, 2, 5), "now")}
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


class Characters(Lab):
    """A lab of one's own whose test is in bits per character: the next of twelve letters."""

    title = "Characters"
    settings: Mapping[str, Control] = {
        "bits_up": Control("activations up [bits per value]", (2, 8, 32), "now", "{} bits".format)
    }
    board = Board(
        plots=(Plot("bits_per_character", "nbytes"), Plot("loss", "step", log=True)),
        kinds={"activations": "up: activations", "gradients": "down: gradients"},
        result="bits_per_character",
    )

    imports = """
import torch
from torch import nn

from fltoolkit import SGD, Channel, History, Party, evaluate, evaluated, train_split
from fltoolkit.codecs import Identity, Pipeline, Quantize
from fltoolkit_research.metrics import BITS_PER_CHARACTER
from fltoolkit.models import seeded
"""

    def write_start(self, values: Mapping[str, Any], moved: Collection[str]) -> str:
        return f"""
letters = torch.arange(48).remainder(12)
x, y = letters[:-1], letters[1:]
with seeded(0):
    bottom, top = nn.Embedding(12, 16), nn.Sequential(nn.Linear(16, 12), nn.LogSoftmax(1))
alice = Party("alice", bottom, SGD(bottom.parameters(), lr=0.2))
bob = Party("bob", top, SGD(top.parameters(), lr=0.2), loss_fn=nn.NLLLoss())
channel = Channel({{"activations": {self.codec(values["bits_up"])!r}}})
records = train_split([alice, bob], ((x, y) for _ in range(60)), channel)
records = evaluated(
    records, lambda: evaluate([alice, bob], x, y, metric=BITS_PER_CHARACTER), every=5
)
"""

    def write_move(self, key: str, values: Mapping[str, Any]) -> str:
        return f'channel.change_codec("activations", {self.codec(values[key])!r})'

    @staticmethod
    def codec(bits: int) -> Any:
        return Identity() if bits == 32 else Pipeline(Quantize(bits))


@pytest.mark.later
def test_a_lab_may_measure_bits_per_character() -> None:
    lab = Characters(bits_up=32)
    lab.run(20)
    lab.set("bits_up", 2)
    run = lab.run()
    up = [b - a for a, b in pairwise([0, *run.history.column("nbytes_up")])]
    assert up[20] < up[19] / 4, "the slider acts on the running training"
    tested = run.history.having("bits_per_character").column("bits_per_character")
    assert 3.6 > tested[0] > 2 * tested[-1], "log2(12) is 3.58"
    picture = picture_of(lab)
    assert f"bits per character {tested[-1]:.3g} for" in picture.summary()
    low, high = picture.axes[0].limits()[1]
    assert low == 0
    assert high == max(tested), "a share ends at 100 %, this does not"
    assert "accuracy" not in lay_out(picture).svg()
    assert """print(f"bits per character {tested['bits_per_character']:.4f}")""" in lab.script()
    again: dict[str, Any] = {"print": lambda words: None}
    exec(lab.script(), again)
    assert again["history"] == run.history


def test_a_mistake_in_the_code_of_a_lab_is_shown_with_its_line() -> None:
    class Wrong(Characters):
        title = "Wrong"

        def write_move(self, key: str, values: Mapping[str, Any]) -> str:
            return "channel.no_such_codec = 1 / 0"

    lab = Wrong(bits_up=32)
    lab.run(2)
    lab.set("bits_up", 2)
    with pytest.raises(RuntimeError, match="over"):
        lab.current.runner.run()
    assert lab.current.status == "failed"
    assert "channel.no_such_codec = 1 / 0" in lab.current.runner.traceback
