"""A lab on the screen: sliders and buttons, and the picture below them.

Here widgets are only connected: what a button does is a method of the lab (lab.py), and what
is shown is drawn by picture.py. How the picture gets into the page stands in
plots.below_controls. The panel needs ipywidgets, 7.7 or newer.
"""

import html
import threading
from collections.abc import Callable
from typing import Any

from fltoolkit_course.labs.lab import Control, Lab
from fltoolkit_course.labs.picture import draw, status_in_words
from fltoolkit_course.plots.below_controls import BelowControls, find_ipywidgets
from fltoolkit_course.plots.drawing import Graphic
from fltoolkit_course.plots.live import throttled

_ACTS = {
    "now": "acts on the running training, from the next record on",
    "at start": "acts at the next Start",
}


class Panel:
    """The controls and the picture of a lab; display it as the last line of a cell.

    ``controls`` holds the widgets by the lab's settings, ``buttons`` by name: start, pause, step,
    stop, script. Moving a widget calls ``lab.set``, and ``lab.set`` from another cell moves
    the widget.
    """

    def __init__(self, lab: Lab):
        ipywidgets = find_ipywidgets()
        self.lab = lab
        self._state = self._seen()
        self._values = dict(lab.values)  # as the controls have them
        self._wiring = threading.RLock()
        self._make_controls(ipywidgets)
        self._refresh()
        lab.listen(self._changed)

    # ------------------------------------------------------------------ what is on the screen

    def _make_controls(self, widgets: Any) -> None:
        lab, self.buttons = self.lab, self._buttons(widgets)
        self.controls = {key: self._control(widgets, key) for key in lab.settings}
        self.note = widgets.HTML()
        self.code = widgets.HTML()

        def part(acts: str) -> list[Any]:
            return [w for key, w in self.controls.items() if lab.settings[key].acts == acts]

        row = {"flex_flow": "row wrap", "align_items": "center"}
        rows = [widgets.Box([*self.buttons.values()], layout=row)]
        if sliders := part("now"):
            words = widgets.HTML("<b>Act on the running training:</b>", layout={"height": "22px"})
            rows += [words, widgets.Box(sliders, layout=row)]
        if lists := part("at start"):
            words = widgets.HTML("<b>Act at the next Start:</b>")
            rows.append(widgets.Box([words, *lists], layout=row))
        self._picture = picture = BelowControls(self.draw, *rows, self.note, self.code)
        self._draw_if_due = throttled(lambda: picture.moved(rests=False))
        self.widget = self._picture.widget

    def _buttons(self, widgets: Any) -> dict[str, Any]:
        def button(words: str, icon: str, tooltip: str, press: Callable[[], Any]) -> Any:
            made = widgets.Button(description=words, icon=icon, tooltip=tooltip)
            made.layout.width = "7.5em"
            made.on_click(lambda _: self._press(press))
            return made

        lab = self.lab
        return {
            "start": button("Start", "play", "begin a run, or go on", lab.start),
            "pause": button("Pause", "pause", "hold still; sliders can be moved", lab.pause),
            "step": button("Step", "step-forward", "one record, then pause", lab.step),
            "stop": button("Stop", "stop", "end this run, keep its curves", lab.stop),
            "script": button("Script", "code", "this run as Python code", self._script),
        }

    def _control(self, widgets: Any, key: str) -> Any:
        """A slider if it acts at once, a list if at the next start."""
        setting: Control = self.lab.settings[key]
        options = [(setting.say(option), option) for option in setting.options]
        place = list(setting.options).index(self.lab.values[key])  # ipywidgets shows no value None
        look = {"options": options, "index": place, "description": setting.words}
        look["style"] = {"description_width": "initial"}  # all words; the slider gets the rest
        if setting.acts == "at start":
            letters = len(setting.words) + max(len(words) for words, _ in options)
            made = widgets.Dropdown(**look, layout={"width": f"{4 + 0.55 * letters:.3g}em"})
        else:
            layout = {"width": "27.5em", "max_width": "98%"}  # three beside each other
            made = widgets.SelectionSlider(**look, layout=layout)
            made.continuous_update = False  # a move is where the slider is let go
        made.tooltip = f"{setting.words}: {_ACTS[setting.acts]}"  # ipywidgets 7 shows none
        made.observe(lambda change: self._moved(key, change["new"]), "value")
        return made

    def _ipython_display_(self) -> None:
        self._picture.show()

    # ------------------------------------------------------------------ from the screen

    def _press(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:  # Jupyter does not show the error of a callback
            self._say(f"{type(error).__name__}: {error}", urgent=True)

    def _moved(self, key: str, value: Any) -> None:
        if value is None:  # ipywidgets takes it for no choice, and would show an empty list
            self.controls[key].index = list(self.lab.settings[key].options).index(None)
        if value != self.lab.values[key]:  # else it was the lab that moved the control
            self._press(lambda: self.lab.set(key, value))

    def _script(self) -> None:
        """Show the code of the latest run, or hide it again."""
        if self.code.value:
            self.code.value = ""
            return
        self.code.value = (
            "<p>This code does the run again, moves included. <code>print(lab.script())</code> "
            'prints it in a cell.</p><pre tabindex="0" style="line-height:1.3; padding:0.5em; '
            f'border:1px solid #999; overflow:auto">{html.escape(self.lab.script())}</pre>'
        )

    # ------------------------------------------------------------------ to the screen

    def _changed(self) -> None:
        """Called after each record, move and change of status, often and from any thread."""
        run, before = self.lab.current, self._state
        self._state = self._seen()
        news = self._state != before
        if news:
            self._refresh()
        try:
            if run and run.status == "running":
                if not self._picture.busy:
                    self._draw_if_due()
            elif news and run and run.runner.over:
                self._picture.rest()
            elif news:  # the pace alone is not shown
                self._picture.moved()
        except Exception as error:  # of drawing: it does not end the training
            self._say(f"cannot draw: {type(error).__name__}: {error}", urgent=True)

    def _seen(self) -> list[Any]:
        """What buttons, sliders and words depend on, apart from the pace."""
        run, values = self.lab.current, dict(self.lab.values)
        if run is None:
            return [values]
        return [values, run.number, run.status, len(run.moves)]

    def draw(self) -> Graphic:
        """The picture of the lab at this moment."""
        return draw(self.lab)

    def _refresh(self) -> None:
        """Bring buttons, sliders and the line of text up to date."""
        run = self.lab.current
        going = run is not None and not run.runner.over
        running = going and run is not None and run.status == "running"
        can = {
            "start": not running,
            "pause": running,
            "step": not running,
            "stop": going,
            "script": run is not None,
        }
        with self._wiring:
            for name, enabled in can.items():
                self.buttons[name].disabled = not enabled
            self.buttons["start"].description = "Resume" if going and not running else "Start"
            for key, value in self.lab.values.items():
                if value != self._values[key]:
                    self._values[key] = self.controls[key].value = value
            self._say(self._words())

    def _words(self) -> str:
        """The status and all settings in words, for readers who cannot see the sliders."""
        lab, run = self.lab, self.lab.current
        doing = f"run {run.number} running" if run and run.status == "running" else ""
        settings = ", ".join(lab.say(key, value) for key, value in lab.values.items())
        return f"{doing or status_in_words(lab)}: {settings}"

    def _say(self, words: str, urgent: bool = False) -> None:
        """A line that screen readers read out when it changes; an error of the run is in red."""
        run = self.lab.current
        if run is not None and run.runner.error is not None:
            urgent, words = True, f"{status_in_words(self.lab)}: {run.runner.message}"
        color = "#b00020" if urgent else "inherit"
        self.note.value = (
            f'<div role="status" aria-live="polite" style="color:{color}; line-height:1.4">'
            f"{html.escape(words)}</div>"
        )


class DisplayedLab(Lab):
    """A lab that shows its `Panel` where it is the last line of a cell; None until then."""

    panel: Panel | None = None

    def _ipython_display_(self) -> None:
        self.panel = self.panel or Panel(self)
        self.panel._ipython_display_()
