"""The threshold lab: split learning in which messages stop while the loss hardly changes.

Display a `ThresholdLab` as the last line of a cell and press Start; or call its methods. Not here:
what it trains (train_threshold.py), and what all labs share (lab.py).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fltoolkit.data.datasets import Dataset
from fltoolkit.history import History
from fltoolkit.split.gates import LossGate, State, gate_trace
from fltoolkit.units import amount
from fltoolkit_course.labs.board import Board, Control, Look, Plot, Strip
from fltoolkit_course.labs.lab import flat_data
from fltoolkit_course.labs.panel import DisplayedLab
from fltoolkit_course.labs.train_threshold import ThresholdTraining

_THRESHOLDS = (0.0, *(m / 10**k for k in (3, 2, 1) for m in (1, 1.5, 2, 3, 5, 7)), 1.0)


class WhatIf(NamedTuple):
    """An estimate of what a recorded run would have sent with another threshold; see `what_if`.

    >>> lab = ThresholdLab(num_epochs=3, threshold=0.5)
    >>> run = lab.run()
    >>> guess = lab.what_if(0.0)  # a threshold of 0 is never silent: all steps in state A
    >>> guess.segments, guess.nbytes > run.history[-1]["nbytes"]
    ([(1, 69, 'A')], True)
    """

    segments: list[tuple[int, int, str]]  # (from step, to step, state)
    nbytes: float  # how much would have been sent
    sentence: str


class ThresholdLab(DisplayedLab):
    """SplitNN with a `LossGate`: how far can the bytes fall before the accuracy does?

    The model is `splitnn_mlp`, trained by plain SGD in batches of 64. Threshold and bits act on the
    running training, cut layer and seed on the next run.

    Args:
        data: a name for `fltoolkit.data.load`, or a Dataset of your own.
        values: how long a run is (``num_epochs``), and the first values of the settings:
            threshold, bits_up, bits_down, cut, seed.

    >>> lab = ThresholdLab(num_epochs=3, threshold=0.5)
    >>> run = lab.run(20)
    >>> lab.set("threshold", 1.0)
    >>> lab.run().moves
    [Move(step=20, key='threshold', value=1.0)]
    """

    title, training = "Threshold lab", ThresholdTraining
    num_epochs: int
    settings: Mapping[str, Control] = {
        "threshold": Control("threshold [loss]", _THRESHOLDS, "now", "{:g}".format),
        "bits_up": Control(
            "activations up [bits per value]", (2, 4, 6, 8, 16, 32), "now", "{} bits".format
        ),
        "bits_down": Control(
            "gradients down [bits per value]", (2, 4, 6, 8, 16, 32), "now", "{} bits".format
        ),
        "cut": Control("cut layer", (2, 4, 5), "at start"),
        "seed": Control("seed", tuple(range(10)), "at start"),
        "what_if": Control("what if the threshold were", _THRESHOLDS, "on view", "{:g}".format),
    }
    board = Board(
        plots=(
            Plot("accuracy", "nbytes"),
            Plot(
                "checked_loss",
                "step",
                "loss",
                "mean loss of an epoch (thin: each batch; grey: the gate's band)",
                log=True,
            ),
        ),
        kinds={
            "activations": "up: activations",
            "gradients": "down: gradients",
            "control": "control",
        },
        states={
            "A": Look("up and down", "#56B4E9", 1.0),
            "B": Look("up only", "#E69F00", 0.75),
            "C": Look("silence", "#BBBBBB", 0.5),
        },
        checked="checked_loss",
    )

    def __init__(self, data: Dataset | str = "digits", **values: Any):
        super().__init__(*flat_data(data), **{"what_if": 0.3, **values})
        self._recording: _Recording | None = None
        self.steps_per_second = 100.0  # slow enough to watch and to move sliders

    def what_if(self, threshold: float) -> WhatIf:
        """Replay the recorded losses of the latest run under another threshold.

        It takes milliseconds and is an estimate: with other states the losses would differ.
        A step in a state counts as many bytes as such a step took in this run, on average.
        """
        return _Recording(self.numbered(None).history).replay(threshold)

    def strips(self) -> list[Strip]:
        """`what_if` for the threshold of the slider, drawn below the states of the run."""
        run = self.current
        if run is None:
            return []
        if self._recording is None or self._recording.history is not run.history:
            self._recording = _Recording(run.history)
        guess = self._recording.replay(threshold := self.values["what_if"])
        return [Strip(f"if {threshold:g}", guess.segments, guess.sentence)]


class _Recording:
    """The periods of a run and the bytes of its steps; each record is read once."""

    def __init__(self, history: History):
        self.history = history
        self._losses: list[float] = []  # of each period that was checked
        self._starts = [1]  # first step of each period, also of the one that is going on
        self._steps = dict.fromkeys(State, 0)
        self._bytes = dict.fromkeys(State, 0)
        self._up = 0  # bytes that went up in state A
        self._read = self._nbytes = self._nbytes_up = 0

    def replay(self, threshold: float) -> WhatIf:
        """The states under a constant ``threshold``, and what they would have sent."""
        self._catch_up()
        # the last period has no loss yet, and its state does not depend on it: 0.0 stands for it
        states = gate_trace([*self._losses, 0.0], LossGate(threshold))
        bounds = [*self._starts, self._read + 1]
        segments: list[tuple[int, int, str]] = []
        steps = dict.fromkeys(State, 0)
        for state, start, end in zip(states, bounds, bounds[1:], strict=False):
            if end > start:
                merge = bool(segments) and segments[-1][2] == state.value
                first = segments.pop()[0] if merge else start
                segments.append((first, end - 1, state.value))
                steps[state] += end - start
        nbytes = sum(steps[state] * self._price(state) for state in State)
        shares = ", ".join(
            f"{100 * steps[state] / self._read:.0f} % {state.value}"
            for state in State
            if self._read
        )
        sentence = (
            f"What if the threshold were {threshold:g}: about {amount('nbytes', round(nbytes))} "
            f"instead of {amount('nbytes', self._nbytes)} ({shares or 'no step yet'}). An estimate "
            "from the recorded losses, which silence would have changed."
        )
        return WhatIf(segments, nbytes, sentence)

    def _price(self, state: State) -> float:
        """Bytes of a step in ``state``: measured in this run, else B costs what A sends up."""
        if self._steps[state]:
            return self._bytes[state] / self._steps[state]
        return self._up / self._steps[State.A] if state is State.B and self._up else 0.0

    def _catch_up(self) -> None:
        while self._read < len(self.history):
            record = self.history[self._read]
            state, nbytes, up = (
                State(record["state"]),
                int(record["nbytes"]),
                int(record["nbytes_up"]),
            )
            self._steps[state] += 1
            self._bytes[state] += nbytes - self._nbytes
            self._up += (up - self._nbytes_up) * (state is State.A)
            self._nbytes, self._nbytes_up = nbytes, up
            self._read += 1
            if (loss := record.get("checked_loss")) is not None:
                self._losses.append(float(loss))
                self._starts.append(int(record["step"]) + 1)
