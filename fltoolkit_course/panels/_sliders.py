"""What all panels share: importing ipywidgets, a slider, and a picture that follows it."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from fltoolkit_course.plots.drawing import Graphic

SECONDS_AT_REST = 0.5  # after which the SVG is replaced with a PNG


class SliderPicture:
    """The picture below the controls: SVG while they are moved, PNG when they are at rest.

    SVG is drawn in milliseconds. PNG takes longer, but GitHub can show it in a saved notebook.

    ``parts`` are the widgets above the picture, from top to bottom. When one of ``controls`` is
    moved, ``moved`` is called with the change, and then ``draw`` for a new picture.
    """

    def __init__(
        self,
        draw: Callable[[], Graphic],
        *parts: Any,
        moved: Callable[[Any], None] = lambda change: None,
        controls: Iterable[Any] = (),
    ):
        from fltoolkit_course.plots.below_controls import BelowControls

        self._draw, self._rest = draw, SECONDS_AT_REST
        self._below = BelowControls(*parts)
        self._shown = False
        for control in controls:
            control.observe(moved, "value")
            control.observe(lambda change: self.moved(), "value")
        self._num_moves = 0
        self.timer = threading.Timer(0, self.rest)

    def show(self) -> None:
        """Display the controls, and the picture below them."""
        self._below.show(*self._draw().png())
        self._shown = True

    def moved(self) -> None:
        """Draw again, because a control was moved."""
        self.timer.cancel()
        self._num_moves += 1
        if self._shown:
            self._below.update(*self._draw().html())
            self.timer = threading.Timer(self._rest, self.rest)
            self.timer.daemon = True
            self.timer.start()

    def rest(self) -> None:
        """Show the PNG now, because nothing moves any more."""
        self.timer.cancel()
        drawn = self._num_moves
        data, metadata = self._draw().png()
        if self._num_moves == drawn:  # nothing moved in the meantime
            self._below.update(data, metadata)


def find_ipywidgets(otherwise: str) -> Any:
    """Import ipywidgets; the error names the way to install it and ``otherwise``."""
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError(
            f'the panel needs ipywidgets: pip install "fltoolkit[lab]"; without it call {otherwise}'
        ) from error
    return ipywidgets


LOOK: dict[str, Any] = {"style": {"description_width": "230px"}, "layout": {"width": "560px"}}


def slider(words: str, values: list[float], value: float, shown: str = "") -> Any:
    """A slider over ``values``, each shown by the format ``shown``."""
    import ipywidgets

    def label(v: float) -> str:
        return format(v, shown) if shown else f"{v:,g}" if v < 1e6 else f"{v / 1e6:g} M"

    options = [(label(v), v) for v in sorted(set(values))]
    return ipywidgets.SelectionSlider(options=options, value=value, description=words, **LOOK)


def steps(low: int, high: int) -> list[float]:
    """1, 2, 5, 10, 20, 50, ... between ``low`` and ``high``, both included."""
    return [m * 10**k for k in range(10) for m in (1, 2, 5) if low <= m * 10**k <= high]
