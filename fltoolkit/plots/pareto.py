"""Pictures of a sweep: the Pareto plot, three sizes of what crossed, bits by bits, time on a link.

Here: matplotlib Axes from `Result`s, by the metric of their experiments. Not here: their numbers
(research.analysis), how a figure is shown or saved (figures).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from fltoolkit.history import History, Record
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.plots.figures import curves
from fltoolkit.plots.style import COLORS, describe, new_axes, tidy
from fltoolkit.research.analysis import (
    Point,
    front,
    front_within,
    groups,
    metric_of,
    on_link,
    points,
    sizes_of,
)
from fltoolkit.research.store import Result
from fltoolkit.units import amount, byte_unit

__all__ = ["heat_map", "over_seconds", "pareto", "three_sizes"]

SPLIT, SILENT, AVERAGED, FEDERATED, OTHER = (
    *(("o", COLORS[0]), ("D", COLORS[2]), ("^", COLORS[3]), ("s", COLORS[1]), ("P", COLORS[4])),
)
SHAPES = {
    **dict.fromkeys(("split", "relay", "u_shaped", "vertical", "local_loss"), SPLIT),
    **dict.fromkeys(("split_async", "uploading"), SILENT),
    "splitfed": AVERAGED,
    **dict.fromkeys(("fedavg", "interval_averaging", "fedasync", "fedbuff"), FEDERATED),
}
"""Mark and color of the package's protocols; those of one's own are `OTHER`."""
KINDS = {"o": "split", "D": "split, silent at times", "^": "SplitFed", "s": "federated"}
KINDS["P"] = "a protocol of one's own"


class PlainLog(LogFormatter):
    """Ticks of a logarithmic axis as plain numbers, 4 and not 4 x 10^0, where there is room."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The number, or nothing where matplotlib leaves a small tick without one."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def limits(
    metric: Metric, found: Sequence[Point], ends: Sequence[float], worst: float | None = None
) -> tuple[float, float]:
    """The least and the largest value to be shown, with some room; ``worst`` cuts off the rest."""
    low, high = min(p.value for p in found), max(p.value for p in found)
    if metric.higher_is_better:
        low, high = (low if worst is None else worst), max(high, *ends)
    else:
        low, high = min(low, *ends), (high if worst is None else worst)
    if metric.unit == "%":
        return low - 0.015, high + 0.008
    room = 0.05 * ((high - low) or abs(high) or 1.0)
    return low - room, high + room


def pareto(
    results: Iterable[Result],
    ax: Axes | None = None,
    *,
    names: bool = True,
    floor: float | None = None,
) -> Axes:
    """The metric, as accuracy [%], over all bytes sent, logarithmic: a point a setting, the front.

    Bars go from the worst to the best seed. The line is the best that any setting had reached
    within so many bytes, mean over the seeds, and the band its least and largest (see
    `fltoolkit.research.front_within`: it lies above the points, whose runs went on).

    Args:
        results: of a sweep, all on one task.
        ax: where to draw.
        names: number the points and list whose they are.
        floor: the worst value shown, such as an accuracy of 0.8; by default all points are.
    """
    results = list(results)
    found = points(results)
    metric = metric_of(point.experiment for point in found)
    scale = metric.scale
    if not found:
        raise ValueError("no finished experiment to plot: run a sweep first")
    ax = ax or new_axes(width=9, height=5.6)
    ax.set_xscale("log")
    unit, size = byte_unit(max(point.nbytes for point in found))
    band = np.array(best_within(results, found)).T
    if band.size:
        ax.fill_between(
            band[0] / size,
            scale * band[2],
            scale * band[3],
            color="#999999",
            alpha=0.3,
            linewidth=0,
        )
        ax.plot(
            band[0] / size, scale * band[1], color="#777777", linewidth=1, drawstyle="steps-post"
        )
    best = {point.name for point in front(found)}
    seen = set()
    for point in found:
        shape, color = SHAPES.get(point.experiment.protocol, OTHER)
        bars = [[scale * (point.value - point.low)], [scale * (point.high - point.value)]]
        ax.errorbar(
            point.nbytes / size,
            scale * point.value,
            yerr=bars if point.num_seeds > 1 else None,
            marker=shape,
            color=color,
            markerfacecolor=color if point.name in best else "white",
            markersize=7,
            capsize=2,
            linestyle="none",
            label="_" if shape in seen else KINDS[shape],
        )
        seen.add(shape)
    ends = [each for p in found for each in (p.low, p.high)] + (
        [*band[2].tolist(), *band[3].tolist()] if band.size else []
    )
    low, high = limits(metric, found, ends, floor)
    ax.set_ylim(scale * low, scale * high)
    ax.set_xlim(found[0].nbytes / size / 1.5, found[-1].nbytes / size * 1.5)
    if names:
        _number(ax, [p for p in found if low <= p.value <= high], metric, size)
    ax.set(xlabel=f"all bytes sent [{unit}], logarithmic", ylabel=metric.axis)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(PlainLog())
    corner: Any = "lower right" if metric.higher_is_better else "upper right"
    ax.legend(loc=corner, frameon=False, title="filled: on the front of the ends")
    tidy(ax)
    seeds = {point.num_seeds for point in found}
    words = "; ".join(
        f"{p.name}: {metric.words(p.value)} for {amount('nbytes', p.nbytes)}"
        + (" (front)" if p.name in best else "")
        for p in found
    )
    return describe(ax, f"means over {'/'.join(map(str, sorted(seeds)))} seeds; {words}")


def best_within(
    results: Sequence[Result], found: Sequence[Point]
) -> list[tuple[float, float, float, float]]:
    """`front_within` for budgets from the first evaluation to a little above the most bytes."""
    least = min(
        int(record["nbytes"]) for run in groups(results).values() for record in run[0].history
    )
    budgets = np.geomspace(least, max(p.nbytes for p in found) * 1.05, 80)
    return front_within(results, budgets.tolist())


def _number(ax: Axes, found: Sequence[Point], metric: Metric, size: float) -> None:
    """A number at each point, and right of the axes whose it is, from the best down."""
    ordered = sorted(found, key=lambda point: point.value, reverse=metric.higher_is_better)
    lines = []
    for number, point in enumerate(ordered, 1):
        at = (point.nbytes / size, metric.scale * point.value)
        lines.append(f"{number:2d}  {point.name}")
        place = (6, 5) if number % 2 else (-6, -5)  # neighbours in height on different sides
        side = "left" if number % 2 else "right"
        ax.annotate(
            str(number), at, place, textcoords="offset points", ha=side, va="center", fontsize=8
        )
    ax.annotate(
        "\n".join(lines),
        (1.02, 1),
        xycoords="axes fraction",
        va="top",
        fontsize=8,
        linespacing=1.45,
    )


def three_sizes(records: Record | Mapping[str, Record], ax: Axes | None = None) -> Axes:
    """What crossed by kind and direction: nominal, real and entropy bytes beside each other.

    ``records`` are last records of runs, by name. Where the real bar is shorter than the entropy,
    the coder knew more than how often each symbol comes; where it is longer, the rest is headers
    and rounding.
    """
    named = records if records and isinstance(next(iter(records.values())), Mapping) else None
    rows = {
        f"{name}: {s.kind} {s.direction}" if name else f"{s.kind} {s.direction}": s
        for name, record in (named or {"": records}).items()
        for s in sizes_of(record)  # type: ignore[arg-type]
    }
    if not rows:
        raise ValueError(
            "these records have no sizes by kind: take the last record of training.run(...)"
        )
    ax = ax or new_axes(width=7.5, height=1.2 + 0.55 * len(rows))
    known = [n for s in rows.values() for n in (s.nominal, s.real) if n == n]  # the rest is NaN
    unit, scale = byte_unit(max(known))
    looks = (("nominal", "#bbbbbb", None), ("real", COLORS[0], None), ("entropy", COLORS[1], "///"))
    sentences = []
    for place, (title, size) in enumerate(rows.items()):
        for row, (what, color, hatch) in enumerate(looks):
            nbytes = getattr(size, what)
            label = what if place == 0 else "_"
            at = place + 0.27 * (row - 1)
            ax.barh(at, nbytes / scale, 0.25, color=color, hatch=hatch, label=label)
            words = amount("nbytes", nbytes)
            ax.annotate(
                words,
                (0 if nbytes != nbytes else nbytes / scale, at),
                (3, 0),
                textcoords="offset points",
                va="center",
                size=7,
            )
        sizes = ", ".join(f"{w} {amount('nbytes', getattr(size, w))}" for w, *_ in looks)
        sentences.append(f"{title}: {sizes}")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set(xlabel=f"bytes [{unit}]", ylabel="kind and direction")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=3, frameon=False)
    tidy(ax)
    ax.grid(axis="y", visible=False)
    return describe(ax, "; ".join(sentences))


def heat_map(
    cells: Mapping[tuple[int, int], Sequence[float]],
    ax: Axes | None = None,
    *,
    rows: str = "bits forward (activations)",
    columns: str = "bits backward (gradients)",
    metric: Metric = ACCURACY,
) -> Axes:
    """The metric by two settings: ``cells[row, column]`` has the values (0..1) of the seeds.

    In each cell the mean and, of several seeds, half the range from worst to best.
    """
    if not cells:
        raise ValueError("no cells: give {(row, column): [value of each seed]}")
    ys, xs = sorted({y for y, _ in cells}), sorted({x for _, x in cells})
    grid = np.full((len(ys), len(xs)), np.nan)
    for (y, x), scores in cells.items():
        grid[ys.index(y), xs.index(x)] = metric.scale * np.mean(scores)
    ax = ax or new_axes(width=1.6 + 0.9 * len(xs), height=1.4 + 0.55 * len(ys))
    image = ax.imshow(grid, cmap="viridis", aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(xs)), [str(x) for x in xs])
    ax.set_yticks(range(len(ys)), [str(y) for y in ys])
    ax.set(xlabel=columns, ylabel=rows)
    ax.figure.colorbar(image, ax=ax, label=metric.axis)
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    sentences = []
    for (y, x), scores in sorted(cells.items()):
        i, j = ys.index(y), xs.index(x)
        half = metric.scale / 2 * (max(scores) - min(scores))
        digits = ".1f" if metric.unit == "%" else ".3g"
        words = f"{grid[i, j]:{digits}}" + (f"\n±{half:{digits}}" if len(scores) > 1 else "")
        color = "white" if grid[i, j] < middle else "black"
        ax.text(j, i, words, ha="center", va="center", color=color, fontsize=8)
        sentences.append(f"{y} x {x}: {words}".replace("\n", " "))
    return describe(ax, f"{rows} x {columns}: " + "; ".join(sentences))


def over_seconds(
    histories: Mapping[str, History | Sequence[History]],
    ax: Axes | None = None,
    *,
    rate: float,
    latency: float = 0.0,
    metric: Metric = ACCURACY,
) -> Axes:
    """The metric over time on a link of ``rate`` bytes a second, ``latency`` seconds a message.

    See `fltoolkit.research.seconds_on` for what is in it, and `fltoolkit.plots.curves`.
    """
    timed = {
        name: [
            on_link(each, rate=rate, latency=latency)
            for each in ([runs] if isinstance(runs, History) else runs)
        ]
        for name, runs in histories.items()
    }
    return curves(timed, metric.name, "seconds", ax)
