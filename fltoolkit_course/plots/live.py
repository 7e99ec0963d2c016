"""Progress and curves of a training below its notebook cell, and a picture at the end.

No widgets are needed, so this works in JupyterLab, VS Code and Colab.
"""

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, ParamSpec

from torch import Tensor

from fltoolkit.history import R, Record
from fltoolkit.plots.style import COLORS, PALE
from fltoolkit.units import amount
from fltoolkit_course.done import came
from fltoolkit_course.plots.drawing import (
    Area,
    Axis,
    Box,
    Frame,
    Graphic,
    Mark,
    Page,
    Pixels,
    curve,
)
from fltoolkit_course.running import shell
from fltoolkit_research.plots.placing import LETTER, Points, Words

P = ParamSpec("P")
Inside = Callable[[], Mapping[str, Tensor]] | None

_MAX_POINTS = 300  # the most points of a curve; a screen could not show more of them
_SHARE = 1 / 25  # the largest part of the time that drawing may take
_SECONDS_BETWEEN = 0.1  # the shortest time between two drawings


def watch(
    records: Iterable[R],
    total: int | None = None,
    *,
    x: str = "nbytes",
    y: Sequence[str] = ("loss",),
    title: str = "",
    log: bool = False,
    inside: Inside = None,
) -> Iterator[R]:
    """Yield the records unchanged, and show the progress of training below the notebook cell.

    During the run, one display holds a progress bar, the latest values and one small chart for each
    key of ``y``. Drawing takes at most a 25th of the time. When the run ends, is stopped
    (break, Stop button) or fails, one picture with a summary in words stays in the notebook; an
    error is raised again. In a terminal, one line is written to stderr; elsewhere nothing is shown.

    The iterator ``records`` is not closed: after a break, pass it to ``watch`` again to continue.

    Args:
        records: any iterable of records, e.g. ``train_split(...)``.
        total: the number of records, for the progress bar and the remaining time.
        x: key of the horizontal axis, e.g. "nbytes" or "step".
        y: keys of the charts; some records may lack them, as most lack "accuracy".
        title: a line above the picture.
        log: whether the horizontal axis is logarithmic. All values of ``x`` must be above 0.
        inside: gives tensors of shape [rows, columns] by name. They stand below the charts as
            images: white is 0, orange above it, blue below it. It is called for each drawing, so it
            sees the parties as they are at that moment.

    Raises:
        ValueError: the first record has no ``x``.

    >>> records = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5}]
    >>> list(watch(records, x="step")) == records
    True
    """
    y = (y,) if isinstance(y, str) else tuple(y)
    if total is None and isinstance(records, Sized):
        total = len(records)
    run = _Run(total, x, y, title, log, inside)
    screen = _screen()
    draw = throttled(screen.draw) if screen else None
    try:
        if draw:
            draw(run)
        came(name := title or "a training", 0, total)
        for record in records:
            run.add(record)
            came(name, run.count, total)
            if draw:
                draw(run)
            yield record
        came(name, 0, 0)
        run.state = "finished"
    except GeneratorExit:
        run.state = "stopped"
        raise
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        run.state = "stopped" if interrupted else f"failed with {type(error).__name__}"
        raise
    finally:
        if screen:
            screen.finish(run)


class _Run:
    """The state of a run so far, in words and as a drawing."""

    def __init__(
        self, total: int | None, x: str, y: Sequence[str], title: str, log: bool, inside: Inside
    ):
        self.total, self.x, self.title, self.log, self.inside = total, x, title, log, inside
        self.curves: dict[str, list[tuple[float, float]]] = {key: [] for key in y}
        self.latest: dict[str, Any] = {}
        self.count, self.state, self.start = 0, "running", time.perf_counter()

    def add(self, record: Record) -> None:
        if not self.count and self.x not in record:
            raise ValueError(f"x={self.x!r} is no key of the records: choose one of {list(record)}")
        self.count += 1
        self.latest.update(record)
        for key, points in self.curves.items():
            if key in record and self.x in record:
                points.append((record[self.x], record[key]))

    def words(self) -> str:
        """The state in one sentence, e.g. "running: 12 of 938, 3 s, about 230 s left; loss 1.9"."""
        seconds = time.perf_counter() - self.start
        parts = [f"{self.state}: {self.count:,}" + (f" of {self.total:,}" if self.total else "")]
        parts.append(f"{seconds:.0f} s")
        if self.state == "running" and self.total and self.count:
            left = max(self.total - self.count, 0) * seconds / self.count
            parts.append(f"about {left:.0f} s left")
        sentence = ", ".join(parts)
        numbers = {k: v for k, v in self.latest.items() if isinstance(v, int | float)}
        for key in (*self.curves, *_bytes_to_say(numbers)):
            if key in numbers:
                name = _BYTES.get(key, key.replace("_", " "))
                sentence += f"; {name} {amount(key, numbers[key])}"
        return sentence

    def summary(self) -> str:
        return f"{self.title}: {self.words()}" if self.title else self.words()

    def drawing(self) -> Graphic:
        """Title, bar, the state in words, a chart for each of the curves, and images."""
        width = 400 * max(len(self.curves), 2 if self.inside else 1)
        progress = min(self.count / self.total, 1) if self.total else None
        page = Page(width, self.title, progress)
        page.write(self.words(), width // LETTER)
        for number, (key, points) in enumerate(self.curves.items()):
            place = Area(400 * number, page.low, 400, 230)
            page.add(_chart(thinned(points), self.x, key, place, self.log), 0)
        page.low += 230 * bool(self.curves)
        images = self.inside() if self.inside else {}
        sizes = [_scale(image, width, len(images)) for image in images.values()]
        tall = max((height for _, height in sizes), default=-24)
        page.add(_row_of_images(images, page.low, width), tall + 24)
        return page.graphic(self.summary())


def _chart(points: Points, x: str, y: str, area: Area, log: bool) -> Iterator[Mark]:
    """A curve over ``x``, whose axis is logarithmic with ``log``."""
    frame = Frame(
        _axis(x, [place for place, _ in points], log),
        _axis(y, [value for _, value in points]),
        area,
    )
    yield from frame.grid()
    if points:
        yield curve(frame.points(points), COLORS[0], 2)
    else:
        yield frame.empty(f"no {y} yet")


def _axis(key: str, values: Sequence[float], log: bool = False) -> Axis:
    """An axis from 0, or from one power of ten to another, that holds all values."""
    if log:
        first = math.floor(math.log10(min(values, default=1)))
        last = max(math.ceil(math.log10(max(values, default=1))), first + 1)
        return Axis(key, 10.0**first, 10.0**last, log)
    low, high = min([0, *values]), max([0, *values])
    return Axis(key, low, high if high > low else low + 1)


def _scale(image: Tensor, width: float, count: int) -> tuple[float, float]:
    """Width and height of one of ``count`` images in a row, in pixels; each value is a square."""
    rows, columns = image.shape
    size = min((width - 16) / count / columns * 0.95, 170 / rows)
    return size * columns, size * rows


def _row_of_images(images: Mapping[str, Tensor], top: float, width: float) -> Iterator[Mark]:
    """The images side by side, each below its name."""
    slot = (width - 16) / max(len(images), 1)
    for number, (name, image) in enumerate(images.items()):
        left = 8 + slot * number
        yield Words(left, top + 12, name, size=11)
        wide, tall = _scale(image, width, len(images))
        yield Box(left - 1, top + 17, wide + 2, tall + 2, PALE)
        yield Pixels(left, top + 18, wide, tall, image)


_BYTES = {"nbytes_up": "up", "nbytes_down": "down", "nbytes": "sent"}


def _bytes_to_say(numbers: Mapping[str, float]) -> Sequence[str]:
    """The keys of bytes to name: up and down, unless workers have sent to each other as well."""
    up, down, sent = (numbers.get(key, 0) for key in _BYTES)
    return ("nbytes",) if sent > up + down else ("nbytes_up", "nbytes_down")


def thinned(points: Points) -> Points:
    """The finite ones, of which at most 300 are kept: every so many, and the last one."""
    finite = [point for point in points if all(map(math.isfinite, point))]
    return finite[:: -(len(finite) // _MAX_POINTS + 1)][::-1]


# A page that is loaded anew while a cell runs gets no more of its outputs. JupyterLab then says
# that the kernel is not busy, or that it does not know. The line is hidden until then.
_IS_IT_MOVING = """<style>.fltoolkit-stands {{ display: none; }}
.jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator:is(
  [data-status=idle], [data-status=unknown], [data-status=dead])) .fltoolkit-stands {{
  display: block; }}</style>
<p class="fltoolkit-stands" role="note"><b>This picture stands still, because the page was loaded
anew or the kernel has ended. To see the training, run this cell again.</b></p>{svg}"""


class _Notebook:
    """One display, updated by its id: SVG while training runs, PNG at the end.

    GitHub does not show SVG in saved notebooks, and drawing PNG by matplotlib takes far longer.
    """

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, run: _Run) -> None:
        data, metadata = run.drawing().html()
        data["text/html"] = _IS_IT_MOVING.format(svg=data["text/html"])
        self._show(data, metadata)

    def finish(self, run: _Run) -> None:
        self._show(*run.drawing().png())

    def _show(self, data: dict[str, str], metadata: dict[str, Any]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, raw=True, metadata=metadata, display_id=True)
        else:
            self._handle.update(data, raw=True, metadata=metadata)


class _Terminal:
    """One line on stderr, which is overwritten again and again."""

    def draw(self, run: _Run) -> None:
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r" + run.summary()[:width].ljust(width))
        sys.stderr.flush()

    def finish(self, run: _Run) -> None:
        self.draw(run)
        sys.stderr.write("\n")


def _screen() -> _Notebook | _Terminal | None:
    """Where to draw: a notebook's kernel, a terminal, or nowhere."""
    if getattr(shell(), "kernel", None) is not None:
        return _Notebook()
    return _Terminal() if sys.stderr is not None and sys.stderr.isatty() else None


def throttled(draw: Callable[P, object]) -> Callable[P, None]:
    """``draw``, called ten times a second at most, and so that it takes a 25th of the time."""
    due = -math.inf

    def draw_if_due(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal due
        start = time.perf_counter()
        if start >= due:
            draw(*args, **kwargs)
            end = time.perf_counter()
            due = end + max(_SECONDS_BETWEEN, (end - start) / _SHARE)

    return draw_if_due
