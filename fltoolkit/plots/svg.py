"""Line charts as SVG text, quick enough to redraw while training runs or a slider moves.

Also what every picture of the package shares: colours, dashes, and how a record's key becomes an
axis or a phrase with a unit. Not here: pictures that stay (plots.py).
"""

import html
import math
from collections.abc import Callable, Mapping, Sequence

from fltoolkit.units import axis_of

__all__ = ["COLORS", "DASHES", "chart", "drawing", "spread", "text"]

Points = Sequence[tuple[float, float]]

# Okabe and Ito (2008) without yellow: told apart by colour-blind readers ...
COLORS = ("#0072B2", "#D55E00", "#009E73", "#A8538A", "#000000", "#B87F00", "#3A94CC")
# ... and, with these (on, off) lengths in line widths, by those who see no colour at all.
DASHES = ((), (5, 2), (2, 2), (8, 2, 2, 2), (12, 3), (1, 1))


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions at least ``gap`` apart, in the order of ``wanted`` and as near to it as possible.

    >>> spread([1.0, 5.0, 5.0], gap=2.0)
    [1.0, 4.0, 6.0]
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    blocks: list[list[float]] = []  # [sum, count] of neighbours that had to be pushed apart
    for rank, index in enumerate(order):
        blocks.append([wanted[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    levels = [total / count for total, count in blocks for _ in range(int(count))]
    places = {index: levels[rank] + rank * gap for rank, index in enumerate(order)}
    return [places[index] for index in range(len(wanted))]


def drawing(width: int, height: int, title: str, *parts: str) -> str:
    """A whole SVG picture of the ``parts``, on white, with ``title`` for screen readers.

    Show it as ``text/html``: there it shrinks with the page, at 200 % zoom too.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%;height:auto" role="img" '
        'font-family="sans-serif" font-size="12" fill="#222">'
        f'<title>{html.escape(title)}</title><rect width="{width}" height="{height}" fill="#fff"/>'
        + "".join(parts)
        + "</svg>"
    )


def text(x: float, y: float, words: str, more: str = "") -> str:
    """One line of text at (x, y); ``more`` holds further SVG attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def chart(
    series: Mapping[str, Points],
    x: str,
    y: str,
    *,
    left: float = 0,
    top: float = 0,
    width: float = 380,
    height: float = 230,
    log: bool = False,
    marks: Mapping[float, str] | None = None,
) -> str:
    """Lines of (x, y) points by name as an SVG part; ``x`` and ``y`` are records' keys.

    Names stand at the line ends. Axes begin at 0, or are logarithmic with ``log`` (then all values
    must be positive). ``marks`` are vertical lines {x: words}. Points not finite are left out.
    """
    series = {
        name: [p for p in line if all(map(math.isfinite, p))] for name, line in series.items()
    }
    points = [point for line in series.values() for point in line]
    label_x, unit_x = axis_of(x, max((p[0] for p in points), default=0))
    label_y, unit_y = axis_of(y, max((p[1] for p in points), default=0))
    right = left + width - 16 - 7 * max(map(len, series), default=0)
    low, high, start = top + height - 40, top + 22, left + 48
    to_x, ticks_x = _scale([p[0] * unit_x for p in points], start, right, log)
    to_y, ticks_y = _scale([p[1] * unit_y for p in points], low, high, log)
    parts = [text(start, top + 10, label_y), text((start + right) / 2, low + 34, label_x, _MIDDLE)]
    for at, tick in ticks_x:
        parts.append(f'<path d="M{at:.1f} {low}V{high}" stroke="#ddd"/>')
        parts.append(text(at, low + 16, tick, _MIDDLE))
    for at, tick in ticks_y:
        parts.append(f'<path d="M{start} {at:.1f}H{right}" stroke="#ddd"/>')
        parts.append(text(start - 6, at + 4, tick, 'text-anchor="end"'))
    for row, (mark, words) in enumerate((marks or {}).items()):
        at = to_x(mark * unit_x)
        parts.append(f'<path d="M{at:.1f} {low}V{high}" stroke="#222" stroke-dasharray="2 4"/>')
        parts.append(text(at + 4, high + 12 + 14 * row, words))
    places = spread([to_y(line[-1][1] * unit_y) if line else low for line in series.values()], 14)
    for number, (name, line) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        dash = " ".join(str(2 * length) for length in DASHES[number % len(DASHES)])
        path = " ".join(f"{to_x(a * unit_x):.1f},{to_y(b * unit_y):.1f}" for a, b in line)
        parts.append(
            f'<polyline fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}" '
            f'points="{path}"/>'
            + text(right + 6, places[number] + 4, name, f'style="fill:{color}"')
        )
    if not points:
        parts.append(text((start + right) / 2, (low + high) / 2, f"no {y} yet", _MIDDLE))
    return "".join(parts)


_MIDDLE = 'text-anchor="middle"'


def _scale(
    values: list[float], start: float, end: float, log: bool
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """The map from values to pixels between ``start`` and ``end``, and (pixel, label) of ticks."""
    low, high = 0.0, max(values, default=0) or 1.0
    if log:
        first = math.floor(math.log10(min(values, default=1)))
        last = max(math.ceil(math.log10(high)), first + 1)
        low, high, ticks = first, last, [10.0**power for power in range(first, last + 1)]
    else:
        power = 10 ** math.floor(math.log10(abs(high) / 4))
        step = next(power * m for m in (1, 2, 5, 10) if abs(high) / (power * m) <= 5)
        ticks = [k * step for k in range(int(high / step + 1e-9) + 1)]

    def place(value: float) -> float:
        position = math.log10(value) if log else value
        return start + (position - low) / (high - low) * (end - start)

    return place, [(place(tick), f"{tick:,g}") for tick in ticks]
