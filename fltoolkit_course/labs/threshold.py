"""The threshold lab: split learning in which messages stop while the loss hardly changes.

Display a `ThresholdLab` as the last line of a cell and press Start; or call its methods.
"""

from collections.abc import Mapping
from typing import Any

from fltoolkit.data.datasets import Samples
from fltoolkit_course.labs.lab import Board, Control, Look, Plot
from fltoolkit_course.labs.panel import DisplayedLab
from fltoolkit_course.labs.train_threshold import ThresholdTraining

_BITS = (2, 4, 6, 8, 16, 32)
_WORDS = "mean loss of an epoch (thin: each batch; grey: the gate's band)"
_THRESHOLDS = (0.0, *(m / 10**k for k in (3, 2, 1) for m in (1, 1.5, 2, 3, 5, 7)), 1.0)


class ThresholdLab(DisplayedLab):
    """SplitNN with a `LossGate`: how far can the bytes fall before the accuracy does?

    The model is `splitnn_mlp`, trained by plain SGD in batches of 64. Threshold and bits act on the
    running training, cut layer and seed on the next run.

    Args:
        data: a name for `fltoolkit.data.load`, or Samples of your own.
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
        "bits_up": Control("activations up [bits per value]", _BITS, "now", "{} bits".format),
        "bits_down": Control("gradients down [bits per value]", _BITS, "now", "{} bits".format),
        "cut": Control("cut layer", (2, 4, 5), "at start"),
        "seed": Control("seed", tuple(range(10)), "at start"),
    }
    board = Board(
        plots=(
            Plot("accuracy", "nbytes"),
            Plot("checked_loss", "step", "loss", _WORDS, log=True),
        ),
        kinds={
            "activations": "up: activations",
            "gradients": "down: gradients",
            "control": "control",
        },
        states={
            "A": Look("up and down", "#56B4E9", 1.0),
            "B": Look("up only", "#E69F00", 0.75),
            "C": Look("announcement only", "#BBBBBB", 0.5),
        },
        checked="checked_loss",
    )

    def __init__(self, data: Samples | str = "digits", **values: Any):
        super().__init__(data, **values)
        self.steps_per_second = 100.0  # slow enough to watch and to move sliders
