"""Pictures of a sweep: the Pareto plot, three sizes of what crossed, bits by bits, time on a link.

Here: matplotlib Axes from `Result`s, like plots.py, whose `show` ends a cell. Not here: their
numbers (analysis.py).
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from fltoolkit.history import History, Record
from fltoolkit.plots.figures import curves
from fltoolkit.plots.style import COLORS, describe, new_axes, tidy
from fltoolkit.research.analysis import (
    Point,
    front,
    front_within,
    groups,
    on_link,
    points,
    sizes_of,
)
from fltoolkit.research.store import Result
from fltoolkit.units import amount, byte_unit

__all__ = ["heat_map", "over_seconds", "pareto", "three_sizes"]

SHAPES = {
    "fedavg": ("s", COLORS[1]),
    "split_async": ("D", COLORS[2]),
    "splitfed": ("^", COLORS[3]),
}
SPLIT = ("o", COLORS[0])
KINDS = {"o": "split", "D": "split, silent at times", "^": "SplitFed", "s": "federated"}


def pareto(
    results: Iterable[Result],
    ax: Axes | None = None,
    *,
    names: bool = True,
    floor: float | None = None,
) -> Axes:
    """Accuracy [%] over all bytes sent, logarithmic: a point a setting, and the front.

    Bars go from the worst to the best seed. The line is the best that any setting had reached
    within so many bytes, mean over the seeds, and the band its least and largest (see
    `fltoolkit.research.front_within`: it lies above the points, whose runs went on).

    Args:
        results: of a sweep, all on one task.
        ax: where to draw.
        names: number the points and list whose they are.
        floor: the least accuracy (0..1) shown; by default all points are.
    """
    results = list(results)
    found = points(results)
    if not found:
        raise ValueError("no finished experiment to plot: run a sweep first")
    ax = ax or new_axes(width=9, height=5.6)
    ax.set_xscale("log")
    unit, size = byte_unit(max(point.nbytes for point in found))
    band = np.array(best_within(results, found)).T
    if band.size:
        ax.fill_between(
            band[0] / size, 100 * band[2], 100 * band[3], color="#999999", alpha=0.3, linewidth=0
        )
        ax.plot(band[0] / size, 100 * band[1], color="#777777", linewidth=1, drawstyle="steps-post")
    best = {point.name for point in front(found)}
    seen = set()
    for point in found:
        shape, color = SHAPES.get(point.experiment.protocol, SPLIT)
        bars = [[100 * (point.accuracy - point.low)], [100 * (point.high - point.accuracy)]]
        ax.errorbar(
            point.nbytes / size,
            100 * point.accuracy,
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
    bottom = min(p.accuracy for p in found) if floor is None else floor
    top = max([p.high for p in found] + (band[3].tolist() if band.size else []))
    ax.set_ylim(100 * bottom - 1.5, 100 * top + 0.8)
    ax.set_xlim(found[0].nbytes / size / 1.5, found[-1].nbytes / size * 1.5)
    if names:
        _number(ax, [p for p in found if p.accuracy >= bottom], size)
    ax.set(xlabel=f"all bytes sent [{unit}], logarithmic", ylabel="accuracy [%]")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.legend(loc="lower right", frameon=False, title="filled: on the front of the ends")
    tidy(ax)
    seeds = {point.num_seeds for point in found}
    words = "; ".join(
        f"{p.name}: {100 * p.accuracy:.2f} % for {amount('nbytes', p.nbytes)}"
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


def _number(ax: Axes, found: Sequence[Point], size: float) -> None:
    """A number at each point, and right of the axes whose it is, from the best down."""
    ordered = sorted(found, key=lambda point: -point.accuracy)
    lines = []
    for number, point in enumerate(ordered, 1):
        at = (point.nbytes / size, 100 * point.accuracy)
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
    unit, scale = byte_unit(max(max(s.nominal, s.real) for s in rows.values()))
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
                words, (nbytes / scale, at), (3, 0), textcoords="offset points", va="center", size=7
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
) -> Axes:
    """Accuracy [%] by two settings: ``cells[row, column]`` has the accuracies (0..1) of the seeds.

    In each cell the mean and, of several seeds, half the range from worst to best.
    """
    if not cells:
        raise ValueError("no cells: give {(row, column): [accuracy of each seed]}")
    ys, xs = sorted({y for y, _ in cells}), sorted({x for _, x in cells})
    grid = np.full((len(ys), len(xs)), np.nan)
    for (y, x), scores in cells.items():
        grid[ys.index(y), xs.index(x)] = 100 * np.mean(scores)
    ax = ax or new_axes(width=1.6 + 0.9 * len(xs), height=1.4 + 0.55 * len(ys))
    image = ax.imshow(grid, cmap="viridis", aspect="auto", interpolation="nearest")
    ax.set_xticks(range(len(xs)), [str(x) for x in xs])
    ax.set_yticks(range(len(ys)), [str(y) for y in ys])
    ax.set(xlabel=columns, ylabel=rows)
    ax.figure.colorbar(image, ax=ax, label="accuracy [%]")
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    sentences = []
    for (y, x), scores in sorted(cells.items()):
        i, j = ys.index(y), xs.index(x)
        half = 50 * (max(scores) - min(scores))
        words = f"{grid[i, j]:.1f}" + (f"\n±{half:.1f}" if len(scores) > 1 else "")
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
) -> Axes:
    """Accuracy over time on a link of ``rate`` bytes a second, ``latency`` seconds a message.

    See `fltoolkit.research.seconds_on` for what is in it, and `fltoolkit.plots.curves`.
    """
    timed = {
        name: [
            on_link(each, rate=rate, latency=latency)
            for each in ([runs] if isinstance(runs, History) else runs)
        ]
        for name, runs in histories.items()
    }
    return curves(timed, "accuracy", "seconds", ax)
