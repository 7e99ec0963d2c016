"""What panels share: a slider over given values."""

from typing import Any

from fltoolkit_course.plots.below_controls import find_ipywidgets

LOOK: dict[str, Any] = {"style": {"description_width": "230px"}, "layout": {"width": "560px"}}


def slider(words: str, values: list[float], value: float, shown: str = "") -> Any:
    """A slider over ``values``, each shown by the format ``shown``."""
    ipywidgets = find_ipywidgets()

    def label(v: float) -> str:
        return format(v, shown) if shown else f"{v:,g}" if v < 1e6 else f"{v / 1e6:g} M"

    options = [(label(v), v) for v in sorted(set(values))]
    return ipywidgets.SelectionSlider(options=options, value=value, description=words, **LOOK)
