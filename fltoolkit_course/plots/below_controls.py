"""Controls in a notebook cell and the picture below them, which also moves in a page loaded anew.

The picture is an output of the cell and no widget, so that a saved notebook keeps it. The kernel
replaces it by its display id. A page that was loaded anew does not know that id, but it asks the
kernel for the controls, which then work as before. When the kernel is asked, it also shows the
picture among the controls. If there are no controls, because the cell was not run or its kernel has
ended, a line of text says so. This file needs ipywidgets, 7.7 or newer.
"""

import html
import uuid
from typing import Any

import ipywidgets

_NO_CONTROLS = "Run this cell to get the controls. Below is a picture that was drawn earlier."
# A saved notebook holds the sentence and no controls. Controls that work hide the sentence; those
# whose kernel is gone, which JupyterLab marks as disconnected, are hidden themselves.
_WITHOUT_CONTROLS = """<style>
.jp-OutputArea:has(.{id}-sentence) > .jp-OutputArea-child > .jupyter-widgets:not(:has(*)) {{
  display: none;  /* it would say: model not found */
}}
</style><div class="{id}-sentence" role="note"><b>{words}</b></div>"""
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


class BelowControls:
    """A column of controls, and the picture below it.

    Args:
        parts: the widgets, from top to bottom; ``widget`` holds them all.
    """

    def __init__(self, *parts: Any):
        self._id = f"fltoolkit-{uuid.uuid4().hex}"
        self._latest: tuple[dict[str, str], dict[str, Any]] = ({}, {})
        self.again = _PictureAgain(self._among_controls)
        style = _WITH_CONTROLS.format(id=self._id, gone=_GONE)
        style = ipywidgets.HTML(style, layout={"height": "0"})
        self.widget = ipywidgets.VBox([*parts, self.again, style])
        self.widget.add_class(self._id)

    def show(self, data: dict[str, str], metadata: dict[str, Any]) -> None:
        """Display the controls, and below them a picture as ``display(raw=True)`` takes it."""
        from IPython.display import HTML, display

        display(HTML(_WITHOUT_CONTROLS.format(id=self._id, words=_NO_CONTROLS)))
        display(self.widget)
        self._latest = data, metadata
        display(data, raw=True, metadata=metadata, display_id=self._id)

    def update(self, data: dict[str, str], metadata: dict[str, Any]) -> None:
        """Replace the picture wherever it is shown."""
        from IPython.display import update_display

        self._latest = data, metadata
        update_display(data, raw=True, metadata=metadata, display_id=self._id)
        if self.again.asked:
            self.again.value = self._among_controls()

    def _among_controls(self) -> str:
        """The latest picture as HTML that hides the picture below the controls."""
        data, metadata = self._latest
        picture = data.get("text/html", "")
        if "image/png" in data:
            words, width = html.escape(data["text/plain"]), metadata["image/png"]["width"]
            source = f"data:image/png;base64,{data['image/png']}"
            picture = f'<img src="{source}" alt="{words}" width="{width}" style="max-width:100%">'
        return _AGAIN.format(id=self._id, gone=_GONE, picture=picture)


class _PictureAgain(ipywidgets.HTML):  # type: ignore[misc]
    """Empty until a page that was loaded anew asks the kernel for the state of all widgets."""

    def __init__(self, picture: Any):
        self._picture, self.asked = picture, False
        super().__init__()

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> Any:
        state = super().get_state(key, drop_defaults)
        if key is None and self.comm is not None:  # without a comm the widget is just being made
            self.asked = True
            state["value"] = self._picture()
        return state
