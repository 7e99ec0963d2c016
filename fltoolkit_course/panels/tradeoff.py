"""A Pareto plot with a slider: choose a setting, see its ledger and all its settings.

This is the panel of notebook 07. The panel needs ipywidgets, 7.7 or newer.
"""

import html
from collections.abc import Iterable
from typing import Any

from fltoolkit.plots.style import INK, picture
from fltoolkit.units import amount, byte_unit
from fltoolkit_course.plots.below_controls import BelowControls, Bundle, find_ipywidgets
from fltoolkit_research.analysis import front, groups, points
from fltoolkit_research.plots.fronts import pareto, with_places
from fltoolkit_research.store import Result

_WORDS = "line-height:1.3; white-space:pre-wrap; word-break:normal; overflow-wrap:anywhere"


class TradeoffPanel:
    """The Pareto plot of one task with a slider over its points; write it as a cell's last line.

    ``name`` is the setting to begin with; by default the one with the fewest bytes.
    """

    def __init__(self, results: Iterable[Result], name: str | None = None):
        ipywidgets = find_ipywidgets()
        self.results = list(results)
        self._points = {point.name: point for point in points(self.results)}
        if not self._points:
            raise ValueError("no finished experiment to show: run a sweep first")
        names = [*self._points]
        self.selected = names[0] if name is None else name
        if self.selected not in names:
            raise KeyError(f"no setting {name!r}; the settings are {sorted(names)}")
        self._words = ipywidgets.HTML()
        self._describe()
        self.slider = ipywidgets.SelectionSlider(
            options=names,
            value=self.selected,
            description="setting",
            layout={"width": "720px"},
            continuous_update=False,
        )
        self.slider.observe(self._moved, "value")
        self._picture = BelowControls(lambda: self, self.slider)

    @property
    def sentence(self) -> str:
        """The chosen setting: its result, its ledger, and the text that runs it again."""
        name, point = self.selected, self._points[self.selected]
        value = point.experiment.metric.words(point.value)
        best = name in {p.name for p in front(self._points.values())}
        lines = [
            f"{name}: {value} for {amount('nbytes', point.nbytes)}, "
            f"{point.num_seeds} seed{'s' * (point.num_seeds > 1)}"
            f"{', on the front' * best}",
            "",
            "ledger of the first seed",
        ]
        for key, nbytes in groups(self.results)[name][0].history[-1].items():
            kind, _, way = key.removeprefix("nbytes_").rpartition("_")
            if key.startswith("nbytes_") and kind:  # and not the total of a direction
                lines.append(f"{kind + ' ' + way:<26}{amount('nbytes', nbytes):>12}")
        text = point.experiment.to_json(indent=2)
        return "\n".join(
            [*lines, "", "to run it again: run(Experiment.from_json(text)), where text is", text]
        )

    def _moved(self, change: Any) -> None:
        self.selected = change["new"]
        self._describe()
        self._picture.rest()

    def _describe(self) -> None:
        self._words.value = f'<pre style="{_WORDS}">{html.escape(self.sentence)}</pre>'

    def _ipython_display_(self) -> None:
        from IPython.display import display

        self._picture.show()
        display(self._words)  # below the picture, so that longer text does not move the picture

    def png(self) -> Bundle:
        """The plot, with a ring around the chosen setting."""
        ax = pareto(self.results)
        found = [*self._points.values()]
        chosen = next(point for point in with_places(found) if point.name == self.selected)
        place = chosen.nbytes / byte_unit(max(point.nbytes for point in found))[1]
        value = chosen.experiment.metric.scale * chosen.value
        ax.plot(place, value, "o", markersize=16, markerfacecolor="none", markeredgecolor=INK)
        return picture(ax.figure.canvas.figure, self.sentence)
