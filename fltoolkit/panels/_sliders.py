"""What all panels share: ipywidgets or a way out, a slider, and a picture that follows it."""

import threading
from collections.abc import Callable
from typing import Any

from fltoolkit.plots.drawing import Drawing

__all__ = []


class Picture:
    """The picture below the controls: SVG at once when they move, PNG when they rest.

    SVG takes milliseconds; PNG is what GitHub and others can show of a saved notebook.
    """

    def __init__(self, draw: Callable[[], Drawing], seconds_at_rest: float):
        self._draw, self._rest = draw, seconds_at_rest
        self._handle: Any = None
        self._num_moves = 0
        self.timer = threading.Timer(0, self.rest)

    def show(self, controls: Any) -> None:
        """Display the controls, and the picture below them."""
        from IPython.display import display

        display(controls)
        data, metadata = self._draw().png()
        self._handle = display(data, raw=True, metadata=metadata, display_id=True)

    def moved(self) -> None:
        """Draw again, because a control was moved."""
        self.timer.cancel()
        self._num_moves += 1
        if self._handle is not None:
            data, metadata = self._draw().html()
            self._handle.update(data, raw=True, metadata=metadata)
            self.timer = threading.Timer(self._rest, self.rest)
            self.timer.daemon = True
            self.timer.start()

    def rest(self) -> None:
        """Show the PNG now, because nothing moves any more."""
        self.timer.cancel()
        drawn = self._num_moves
        data, metadata = self._draw().png()
        if self._num_moves == drawn:  # nothing moved in the meantime
            self._handle.update(data, raw=True, metadata=metadata)


def find_ipywidgets(otherwise: str) -> Any:
    """Import ipywidgets; the error names the way to install it and ``otherwise``."""
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError(
            'the panel needs ipywidgets: pip install "fltoolkit[lab]"; without it call '
            f"fltoolkit.{otherwise}"
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
