"""A lab: a training whose settings can be changed while it runs, with a panel in a notebook."""

from typing import Any

from fltoolkit_course.labs.panel import Panel
from fltoolkit_course.labs.steering import Steering


class Lab(Steering):
    """An experiment with settings: start it, change them while it runs, compare the runs.

    Display it as the last line of a cell, or call the methods of `Steering`: they do what the
    panel's buttons and sliders do. A subclass says what `Steering` lists: ``settings``, ``board``,
    `begin`, `write_start` and `write_move`.

    The lab of notebook 03, ten steps of it:

    >>> from fltoolkit_course.labs.threshold import ThresholdLab
    >>> lab = ThresholdLab(num_epochs=1, bits_up=8)
    >>> lab.run(10)
    <Run 1 paused: 10 records, 0 moves>
    """

    panel: Any = None  # the `Panel` that is shown in the notebook, once it was displayed

    def _ipython_display_(self) -> None:
        self.panel = self.panel or Panel(self)
        self.panel._ipython_display_()
