"""Controls in a notebook cell and the picture below them, which also moves in a page loaded anew.

The picture is an output of the cell and no widget, so that a saved notebook keeps it. The kernel
replaces it by its display id. A page that was loaded anew does not know that id, but it asks the
kernel for the controls, which then work as before. When the kernel is asked, it also shows the
picture among the controls. If there are no controls, because the cell was not run or its kernel has
ended, a line of text says so. This needs ipywidgets, 7.7 or newer.
"""

import html
import threading
import uuid
from collections.abc import Callable
from typing import Any

_NO_CONTROLS = "Run this cell to get the controls. Below is a picture that was drawn earlier."
# A saved notebook holds the sentence and no controls. Controls that work hide the sentence; those
# whose kernel is gone, which JupyterLab marks as disconnected, are hidden themselves. The script
# gives each slider, for screen readers, its name and its value in place of a position's number.
_WITHOUT_CONTROLS = """<style>
.jp-OutputArea:has(.{id}-sentence) > .jp-OutputArea-child > .jupyter-widgets:not(:has(*)) {{
  display: none;  /* it would say: model not found */
}}
</style><div class="{id}-sentence" role="note"><b>{words}</b></div><script>
(window.fltoolkitNames ??= new MutationObserver(() => {{
  for (const row of document.querySelectorAll(".widget-hslider")) {{
    const [handle, name, now] = ["[role=slider]", ".widget-label", ".widget-readout"].map(
      part => row.querySelector(part)), names = {{ "aria-label": name, "aria-valuetext": now }};
    for (const [key, {{ textContent: words }}] of Object.entries(names))
      if (handle.getAttribute(key) !== words) handle.setAttribute(key, words); }}
}})).observe(document.body, {{ childList: true, subtree: true, characterData: true,
                              attributeFilter: ["aria-valuetext"] }});
</script>"""
_WITH_CONTROLS = """<style>
.{id}-sentence {{ display: none; }}
.jp-OutputArea:has(.{id}.jupyter-widgets-disconnected) .{id}-sentence,
{gone} .{id}-sentence {{ display: block; }}
.{id}.jupyter-widgets-disconnected, {gone} .{id} {{ display: none; }}
</style>"""
_GONE = (
    ".jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator:is([data-status=unknown],"
    "[data-status=dead]))"
)
# The picture among the controls hides the one below them, which can no longer be replaced.
_AGAIN = """<style>
.jp-OutputArea-child:has(.{id}-again):not(:has(.{id}.jupyter-widgets-disconnected)):not({gone} *)
+ .jp-OutputArea-child {{ display: none; }}
</style><div class="{id}-again">{picture}</div>"""


Bundle = tuple[dict[str, str], dict[str, Any]]
"""Data and metadata, as ``display(raw=True)`` takes them."""


def find_ipywidgets() -> Any:
    """Import ipywidgets; the error names the way to install it."""
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError('the panel needs ipywidgets: pip install "fltoolkit[lab]"') from error
    return ipywidgets


LOOK: dict[str, Any] = {"style": {"description_width": "230px"}, "layout": {"width": "560px"}}


def slider(words: str, values: list[float], value: float, shown: str = "") -> Any:
    """A slider over ``values``, each shown by the format ``shown``; it looks as in `LOOK`."""

    def label(v: float) -> str:
        return format(v, shown) if shown else f"{v:,g}" if v < 1e6 else f"{v / 1e6:g} M"

    options = [(label(v), v) for v in sorted(set(values))]
    made = find_ipywidgets().SelectionSlider
    return made(options=options, value=value, description=words, **LOOK)


class BelowControls:
    """A column of controls, and the picture below it.

    Args:
        draw: makes what has a method ``png``, whose `Bundle` stays in the notebook, and ``html``,
            if it is ever `moved`: a `Graphic`.
        parts: the widgets, from top to bottom; ``widget`` holds them all.
    """

    def __init__(self, draw: Callable[[], Any], *parts: Any):
        ipywidgets = find_ipywidgets()
        self.shown, self.timer = False, threading.Timer(0, self.rest)
        self.rests_after = 0.5  # seconds without a move, after which the SVG becomes a PNG
        self._draw, self._drawing = draw, threading.Lock()
        self._id = f"fltoolkit-{uuid.uuid4().hex}"
        self._latest: Bundle = ({}, {})
        self._loaded_anew = False
        self.again = ipywidgets.HTML()  # empty until a page that was loaded anew asks for it
        self._state = self.again.get_state
        self.again.get_state = self._state_again
        style = _WITH_CONTROLS.format(id=self._id, gone=_GONE)
        style = ipywidgets.HTML(style, layout={"height": "0"})
        self.widget = ipywidgets.VBox([*parts, self.again, style])
        self.widget.add_class(self._id)

    @property
    def busy(self) -> bool:
        """Whether a picture is being drawn just now."""
        return self._drawing.locked()

    def show(self) -> None:
        """Display the controls, and below them the picture."""
        from IPython.display import HTML, display

        display(HTML(_WITHOUT_CONTROLS.format(id=self._id, words=_NO_CONTROLS)))
        display(self.widget)
        with self._drawing:
            self._latest = data, metadata = self._draw().png()
            display(data, raw=True, metadata=metadata, display_id=self._id)
            self.shown = True

    def moved(self, rests: bool = True) -> None:
        """Draw again as SVG; later as PNG, if it ``rests`` then."""
        self.timer.cancel()
        self._update(lambda drawn: drawn.html())
        if self.shown and rests:
            self.timer = threading.Timer(self.rests_after, self.rest)
            self.timer.daemon = True
            self.timer.start()

    def rest(self) -> None:
        """Show the PNG now, because nothing moves any more."""
        self.timer.cancel()
        self._update(lambda drawn: drawn.png())

    def _update(self, form: Callable[[Any], Bundle]) -> None:
        """Replace the picture wherever it is shown."""
        from IPython.display import update_display

        if not self.shown:
            return
        with self._drawing:
            self._latest = data, metadata = form(self._draw())
            update_display(data, raw=True, metadata=metadata, display_id=self._id)
            if self._loaded_anew:
                self.again.value = self._among_controls()

    def _state_again(self, key: Any = None, drop_defaults: bool = False) -> Any:
        """The state of ``again``; who asks for all of it is a page that was loaded anew."""
        state = self._state(key, drop_defaults)
        if key is None:
            self._loaded_anew = True
            state["value"] = self._among_controls()
        return state

    def _among_controls(self) -> str:
        """The latest picture as HTML that hides the picture below the controls."""
        data, metadata = self._latest
        picture = data.get("text/html", "")
        if "image/png" in data:
            words, width = html.escape(data["text/plain"]), metadata["image/png"]["width"]
            source = f"data:image/png;base64,{data['image/png']}"
            picture = f'<img src="{source}" alt="{words}" width="{width}" style="max-width:100%">'
        return _AGAIN.format(id=self._id, gone=_GONE, picture=picture)
