"""What all pictures share: colours, dashes, empty axes, and a description for screen readers.

Nothing here touches pyplot or a global style. In a notebook end the cell with ``plots.show(ax)``;
in a script, ``ax.figure.savefig("name.png")``. Not here: what is drawn.
"""

import base64
import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

__all__ = ["new_axes", "new_figure", "picture", "show"]

# Okabe and Ito (2008) without yellow: told apart by colour-blind readers ...
COLORS = ("#0072B2", "#D55E00", "#009E73", "#A8538A", "#000000", "#B87F00", "#3A94CC")
# ... and, with these (on, off) lengths in line widths, by those who see no colour at all.
DASHES = ((), (5, 2), (2, 2), (8, 2, 2, 2), (12, 3), (1, 1))
GREY, DARK_GREY, PALE, INK = "#bbbbbb", "#777777", "#dddddd", "#222222"
PAPER = "#ffffff"
# The same on dark paper, as docs/explore/explore.css has them: lighter, and told apart as well.
_LIGHT = ("#56b4e9", "#e69f00", "#2bc79a", "#d98cbc", "#ececec", "#d9b44a", "#8cc8ee")
DARK = dict(zip(COLORS, _LIGHT, strict=True)) | {
    **{GREY: "#565c62", DARK_GREY: "#8d949b", PALE: "#2c3136", INK: "#ececec", PAPER: "#15181b"}
}


def new_figure(width: float = 6.4, height: float = 3.6) -> Figure:
    """An empty figure of so many inches that pyplot knows nothing of."""
    return Figure(figsize=(width, height), layout="constrained")


def new_axes(width: float = 6.4, height: float = 3.6) -> Axes:
    """Empty axes in a figure of their own, see `new_figure`."""
    return new_figure(width, height).subplots()


def tidy(ax: Axes) -> None:
    """Take away the frame's upper and right side, and put a pale grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=PALE, linewidth=0.8)
    ax.set_axisbelow(True)


def describe(ax: Axes, text: str) -> Axes:
    """Keep ``text`` as the label of the Axes, which is never drawn; `show` reads it there."""
    ax.set_label("; ".join(filter(None, [str(ax.get_label()), text])))
    return ax


def summary(ax: Axes) -> str:
    """The description of ``ax``. Axes drawn by hand: the last point of each labelled line."""
    ends = []
    for line in ax.lines:
        points, name = np.asarray(line.get_xydata()), str(line.get_label())
        if len(points) and not name.startswith("_"):
            ends.append(f"{name} ends at ({points[-1, 0]:g}, {points[-1, 1]:g})")
    words = str(ax.get_label()) or "; ".join(ends) or ax.get_ylabel()
    return f"{ax.get_title()}: {words}" if ax.get_title() else words


def show(ax: Axes) -> None:
    """Show the whole figure of ``ax`` under the notebook cell, with its numbers as text.

    An Axes as the last value of a cell would print ``<Axes: ...>``; this displays a picture, and
    for readers and tests without pictures a text with the numbers in it.
    """
    try:
        from IPython.display import display
    except ImportError as error:
        message = "show is for notebooks (pip install ipython); in a script use ax.figure.savefig"
        raise ImportError(message) from error
    figure = ax.figure.canvas.figure  # of a subfigure's axes, the whole figure
    data, metadata = picture(figure, "\n".join(filter(None, map(summary, figure.axes))))
    display(data, raw=True, metadata=metadata)


def picture(figure: Figure, text: str) -> tuple[dict[str, str], dict[str, Any]]:
    """``figure`` as PNG beside ``text``: the data and metadata that ``display(raw=True)`` takes."""
    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=144)
    # 256 colours are plenty for curves, and make a saved notebook less than half as large
    Image.open(drawn).convert("RGB").quantize(256).save(file, format="png", optimize=True)
    width = round(figure.get_figwidth() * 96)  # drawn finer than shown, for sharp screens
    png = base64.b64encode(file.getvalue()).decode()
    return {"image/png": png, "text/plain": text}, {"image/png": {"width": width, "alt": text}}
