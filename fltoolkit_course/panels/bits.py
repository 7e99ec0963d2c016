"""The first minute of the course: one slider, one curve that moves, one counter of bytes.

Two parties train a small network while the reader watches, and every number that they send has as
many bits as the slider says. Here: that training, and the panel. Not here: what quantization does
to a tensor (notebook codec_gallery). The panel needs ipywidgets, 7.7 or newer.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.data.batches import Batches
from fltoolkit.data.datasets import load
from fltoolkit.evaluation import evaluate
from fltoolkit.history import Record, evaluated
from fltoolkit.models import splitnn_mlp
from fltoolkit.party import SGD, Party
from fltoolkit.plots.style import COLORS, GREY, INK, PAPER
from fltoolkit.split.chain import train_split
from fltoolkit.units import amount
from fltoolkit_course.labs.runner import Runner
from fltoolkit_course.plots.below_controls import BelowControls, slider
from fltoolkit_course.plots.drawing import Area, Axis, Frame, Graphic, Mark, Stroke, dot
from fltoolkit_course.running import show_errors_in_words
from fltoolkit_research.plots.placing import Words

_CHOICES = (1, 2, 3, 4, 6, 8, 16, 32)
_EPOCHS, _BATCH_SIZE, _EVERY = 10, 32, 15  # _EVERY: so many steps from one test to the next


def train_in_bits(bits: int) -> Iterator[Record]:
    """Train two parties on digits, with ``bits`` for each number that crosses the cut.

    Activations are rounded to the nearest level, gradients at random (without bias); 32 bits are
    float32, as computers keep numbers. Yields a record for each of 30 tests on new images: all
    ``nbytes`` that have crossed so far, as measured, and the ``accuracy``.

    The records end early if training diverges, which one bit may cause.

    >>> first = next(train_in_bits(8))
    >>> first["step"], first["nbytes"] > 2 * 15 * 32 * 640  # up and down, a byte for each value
    (15, True)
    """
    data, model, parties = load("digits").flat(), splitnn_mlp(64, seed=0), []
    for name, part in (("alice", model[:4]), ("bob", model[4:])):
        parties.append(Party(name, part, SGD(part.parameters(), lr=0.05), loss_fn=nn.NLLLoss()))
    rounded = {
        "activations": Pipeline(Quantize(bits)),
        "gradients": Pipeline(Quantize(bits, stochastic=True)),
    } if bits != 32 else {}  # fmt: skip
    batches: Any = Batches(data.x_train, data.y_train, batch_size=_BATCH_SIZE, seed=0)
    records = train_split(parties, batches.epochs(_EPOCHS), Channel(rounded))
    tested = evaluated(records, lambda: evaluate(parties, data.x_test, data.y_test), every=_EVERY)
    try:
        for record in tested:
            if "accuracy" in record:
                yield {key: record[key] for key in ("step", "nbytes", "accuracy")}
    except FloatingPointError:  # the loss is no longer finite
        return


class Playground:
    """How much accuracy does a byte buy? A slider, a curve that moves and a counter of bytes.

    Display it as the last line of a cell: ``slider`` chooses the bits, ``draw`` gives what is seen.
    The curve is a real training (`train_in_bits`): two parties, a cut network, every byte counted.
    A position that was left before its training had ended goes on when the reader comes back.
    It starts with 1, 2, 3, 4, 6, 8, 16 or 32 ``bits``.
    """

    def __init__(self, bits: int = 32):
        show_errors_in_words()  # it is the first cell of the course, before the imports
        self.runs = {
            each: Runner(train_in_bits(each), on_change=self._changed) for each in _CHOICES
        }
        self.slider = slider("bits for each number that is sent", [*_CHOICES], bits)
        self._picture = BelowControls(self.draw, self.slider)
        self.slider.observe(self._moved, "value")

    @property
    def bits(self) -> int:
        """Where the slider stands."""
        return int(self.slider.value)

    @property
    def sentence(self) -> str:
        """What is seen, in words."""
        nbytes, accuracy = self.points(self.bits)[-1]
        return (
            f"{self.bits} bit{'s' * (self.bits > 1)} for each number: "
            f"{amount('nbytes', nbytes)} sent, {amount('accuracy', accuracy)} of new digits read"
            + ("" if self.runs[self.bits].over else ", and the training is not finished")
        )

    def points(self, bits: int) -> list[tuple[float, float]]:
        """Bytes and accuracy of each test so far; before training, one digit of ten by chance."""
        tests = self.runs[bits].history
        return [(0.0, 0.1), *((float(r["nbytes"]), float(r["accuracy"])) for r in tests)]

    def _ipython_display_(self) -> None:
        """Show the panel, and train at the first position at once, so that something moves."""
        self._picture.show()
        with suppress(KeyboardInterrupt):  # the reader has pressed stop: what is drawn stays
            self.runs[self.bits].run()
        self._picture.rest()

    def _moved(self, change: Any) -> None:
        """Train where the slider stands, and nowhere else."""
        self.runs[change["old"]].pause()
        self._picture.moved()
        if not self.runs[self.bits].over:
            self.runs[self.bits].start()

    def _changed(self, run: Runner) -> None:
        if run is self.runs[self.bits]:
            self._picture.moved()

    def _beside_32(self) -> str:
        """What is saved compared with 32 bits, once both trainings are done; "" before that."""
        full, run = self.runs[32], self.runs[self.bits]
        if run is full or not (full.over and run.over):
            return ""
        (most, best), (nbytes, accuracy) = self.points(32)[-1], self.points(self.bits)[-1]
        lost = round(100 * (best - accuracy), 1)
        points = f"{abs(lost)} points {'lost' if lost > 0 else 'won'}" if lost else "same accuracy"
        return f"{most / nbytes:.0f} times fewer bytes, {points}"

    def draw(self) -> Graphic:
        """Accuracy over bytes: this position's curve, and where the others have got to.

        The bytes have a logarithmic axis, on which half as many bits are the same step everywhere.
        """
        x, y = Axis("nbytes", 5e4, 1e8, log=True), Axis("accuracy", 0, 1)
        frame = Frame(x, y, Area(0, 6, 640, 320))
        marks: list[Mark] = [*frame.grid()]
        now = self.bits
        for bits in sorted(self.runs, key=lambda bits: bits == now):
            tested = self.points(bits)
            if len(tested) == 1 and bits != now:
                continue
            color = COLORS[1] if bits == now else GREY
            line = frame.points(tested[1:] or tested)  # the first has no bytes: no place
            if len(line) > 1:
                marks.append(Stroke(line, color, 3 if bits == now else 1))
            fill = color if self.runs[bits].over else PAPER  # hollow: it goes on from here
            marks.append(dot(*line[-1], color, fill, 1 if bits == now else 0.5))
            end = line[-1][0], line[-1][1] - 9
            marks.append(Words(*end, str(bits), "middle", 13, bold=bits == now, halo=True))
        nbytes, accuracy = self.points(now)[-1]
        corner = frame.right - 8, frame.low - 84
        for down, words, size in (
            (0, amount("nbytes", nbytes), 38),
            (28, f"sent, with {now} bit{'s' * (now > 1)} for each number", 15),
            (52, f"{round(100 * accuracy)} of 100 new digits read correctly", 15),
            (-36, self._beside_32() if self.runs[now].over else "not finished yet", 15),
        ):
            large = size > 20
            color = COLORS[1] if large else INK
            at = corner[0], corner[1] + down
            marks.append(Words(*at, words, "end", size, color, bold=large, halo=True))
        return Graphic(640, 326, self.sentence, marks)
