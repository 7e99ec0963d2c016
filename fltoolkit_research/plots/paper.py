"""Figures for papers: as wide as a column, with names in a legend where there is no room."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text

from fltoolkit.plots.figures import END_OF_LINE, spread_ends

NAME_OF_POINT = "fltoolkit: the name of a point"
"""Marks a text that `save_figure` moves into a legend, if there is no room."""

COLUMN_WIDTHS = {1: 3.35, 2: 7.0}
"""Widths in inches of one column, and of two columns with their gap, in IEEE and ACM journals."""


def save_figure(ax: Axes, path: str | os.PathLike[str], *, columns: int = 1) -> None:
    """Save the whole figure of ``ax`` for a paper: as wide as a column, with letters of 8 points.

    A single column has no room for names at the ends of lines and beside points, so a legend below
    lists them; points get numbers. The ending of ``path`` chooses the format: .pdf, .svg, or .png
    with 600 dots per inch. Fonts are embedded in a PDF as TrueType (type 42), as publishers
    require. The figure itself does not change, nor does any global setting of matplotlib.

    Args:
        ax: any Axes of the figure.
        path: the file to write; its folder must exist.
        columns: 1, or 2 for the whole width of a page.

    >>> from fltoolkit import History
    >>> from fltoolkit.plots import curves
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "loss.svg"
    >>> save_figure(curves(History([{"step": 1, "loss": 2.0}]), "loss", "step"), path)
    >>> 'width="241.2pt"' in path.read_text()  # 3.35 inches of 72 points
    True
    """
    if columns not in COLUMN_WIDTHS:
        raise ValueError(f"columns={columns}: a figure is 1 or 2 columns wide")
    figure = ax.figure.canvas.figure
    before = (figure.get_figwidth(), figure.get_figheight())
    width = COLUMN_WIDTHS[columns]
    with _names_below(figure) if columns == 1 else nullcontext(0) as num_below:
        texts = figure.findobj(Text)
        sizes = [text.get_fontsize() for text in texts]
        try:
            tall = max(2.2, width * before[1] / before[0]) + 0.17 * num_below  # inches
            figure.set_size_inches(width, tall)
            for text in texts:
                text.set_fontsize(8)
            for each in figure.axes:
                spread_ends(each)
            with mpl.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
                figure.savefig(path, dpi=600)
        finally:
            figure.set_size_inches(*before)
            for text, size in zip(texts, sizes, strict=True):
                text.set_fontsize(size)
    for each in figure.axes:
        spread_ends(each)


@contextmanager
def _names_below(figure: Any) -> Iterator[int]:
    """In a block, a legend below in place of names in the figure; gives the number of its lines."""
    first = figure.axes[0]
    texts = [text for each in figure.axes for text in each.texts]
    handles, labels = first.get_legend_handles_labels()
    ends = [text for text in texts if text.get_gid() == END_OF_LINE and labels]
    named = [text for text in texts if text.get_gid() == NAME_OF_POINT]
    inside, title = first.get_legend(), None
    if not ends and not named:
        yield 0
        return
    if named and inside is not None:
        title = inside.get_title().get_text()
        handles = list(inside.legend_handles)
        labels = [text.get_text() for text in inside.get_texts()]
    hidden = [*ends, *named, *([inside] if named and inside is not None else [])]
    added: list[Any] = []
    for number, text in enumerate(named, 1):
        look = {"color": text.get_color(), "marker": f"${number}$", "linestyle": "none"}
        handles, labels = [*handles, Line2D([], [], **look)], [*labels, text.get_text()]
        place = {"textcoords": "offset points", "color": text.get_color()}
        added.append(text.axes.annotate(str(number), text.xy, (5, 4), **place))
    where: Any = {"loc": "outside lower center", "frameon": False, "labelspacing": 0.3}
    added.append(figure.legend(handles, labels, title=title, **where))
    for each in hidden:
        each.set_visible(False)
    try:
        yield len(labels) + (title.count("\n") + 1 if title else 0)
    finally:
        for each in added:
            each.remove()
        for each in hidden:
            each.set_visible(True)
