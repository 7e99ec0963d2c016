"""What all pictures share: colours, dashes, empty axes, and a description for screen readers.

Nothing here uses pyplot or changes a global style. In a notebook, end the cell with
``plots.show(ax)``; in a script, call ``ax.figure.savefig("name.png")``.
"""

import base64
import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#A8538A", "#000000", "#B87F00", "#3A94CC", "#6E4B3A")
"""The colours of Okabe and Ito (2008) without yellow, in the order in which lines take them.

Colour-blind readers can tell them apart.
"""
# Dashes as (on, off) lengths in line widths, for readers who see no colour at all.
DASHES = ((), (5, 2), (2, 2), (8, 2, 2, 2), (12, 3), (1, 1), (8, 2, 2, 2, 2, 2))
GREY, DARK_GREY, PALE, INK = "#bbbbbb", "#777777", "#dddddd", "#222222"
PAPER = "#ffffff"


def new_figure(width: float = 6.4, height: float = 3.6) -> Figure:
    """An empty figure of this size in inches. It is not one of pyplot's, so it need not be closed.

    >>> new_figure(3, 2).get_size_inches().tolist()
    [3.0, 2.0]
    """
    return Figure(figsize=(width, height), layout="constrained")


def new_axes(width: float = 6.4, height: float = 3.6) -> Axes:
    """Empty axes in a figure of their own, see `new_figure`.

    >>> ax = new_axes(3, 2)
    >>> ax.lines[:], float(ax.figure.get_figwidth())
    ([], 3.0)
    """
    return new_figure(width, height).subplots()


def tidy(ax: Axes) -> None:
    """Remove the upper and the right side of the frame, and put a pale grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=PALE, linewidth=0.8)
    ax.set_axisbelow(True)


def describe(ax: Axes, text: str) -> Axes:
    """Store ``text`` as the label of the Axes, which is never drawn; `show` reads it from there."""
    ax.set_label("; ".join(filter(None, [str(ax.get_label()), text])))
    return ax


def summary(ax: Axes) -> str:
    """The description of ``ax``; without a description, the last point of each labelled line."""
    ends = []
    for line in ax.lines:
        points, name = np.asarray(line.get_xydata()), str(line.get_label())
        if len(points) and not name.startswith("_"):
            ends.append(f"{name} ends at ({points[-1, 0]:g}, {points[-1, 1]:g})")
    words = str(ax.get_label()) or "; ".join(ends) or ax.get_ylabel()
    return f"{ax.get_title()}: {words}" if ax.get_title() else words


def show(ax: Axes) -> None:
    """Show the whole figure of ``ax`` below the notebook cell, with its numbers as text.

    An Axes as the last value of a cell would print ``<Axes: ...>``. ``show`` displays the picture,
    and a text with its numbers for readers and tests that cannot see pictures.

    >>> ax = new_axes()
    >>> _ = ax.plot([1, 2], [10, 20], label="loss")
    >>> show(ax)  # doctest: +SKIP
    >>> summary(ax)  # the text beside the picture
    'loss ends at (2, 20)'
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
    from PIL import Image  # matplotlib requires it

    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=144)
    # 256 colours are enough for curves, and make a saved notebook less than half as large
    Image.open(drawn).convert("RGB").quantize(256).save(file, format="png", optimize=True)
    width = round(figure.get_figwidth() * 96)  # shown smaller than drawn, for sharp screens
    png = base64.b64encode(file.getvalue()).decode()
    return {"image/png": png, "text/plain": text}, {"image/png": {"width": width, "alt": text}}
