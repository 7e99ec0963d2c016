"""matplotlib figures of histories, channels and partitions.

In a notebook, end the cell with ``plots.show(ax)``; in a script, call
``ax.figure.savefig("name.png")``.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import History
from fltoolkit.metrics import t_quantile
from fltoolkit.plots.style import COLORS, DASHES, describe, new_axes, tidy
from fltoolkit.units import amount, axis_of, byte_unit

Histories = History | Mapping[str, History | Sequence[History]]
_Band = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # x, lower end, mean, upper end
_MARKERS = "osD^vP*X"


def accuracy_over_bytes(histories: Histories, ax: Axes | None = None) -> Axes:
    """Accuracy [%] against all bytes sent so far, headers included.

    See `curves` for ``histories``; they need records with "accuracy" and "nbytes".

    The figure also has a text, which `show` gives to readers who cannot see it:

    >>> from fltoolkit import History
    >>> history = History([{"nbytes": 1000, "accuracy": 0.5}, {"nbytes": 2000, "accuracy": 0.9}])
    >>> accuracy_over_bytes({"SplitNN": history}).get_label()
    'SplitNN ends at accuracy 90.0 %, bytes sent 2.0 kB'
    """
    return curves(histories, "accuracy", "nbytes", ax)


def curves(histories: Histories, y: str, x: str, ax: Axes | None = None) -> Axes:
    """The records' ``y`` against ``x``, one line per name; name and last value stand at its end.

    Where ``x`` stands still, as the bytes of a silent run do, the line goes straight to its last
    value, and a pale bar shows the range of the values.

    Args:
        histories: one History, or {name: History}, or {name: [History, ...]} with one run for each
            seed. In the last case the line is the mean of the runs, and the band its 95 % interval
            by Student's t at each ``x``, over the range of ``x`` that all runs cover. Runs without
            a common range, such as samples sent once whose size differs from seed to seed, are
            one point with a bar: the mean of their last ``x`` and ``y``.
        y: key of the vertical axis; only records that hold both keys are used.
        x: key of the horizontal axis; a "step" is called a round where it is one.
        ax: the Axes to draw in; by default new Axes in a new figure.

    Raises:
        ValueError: no histories, or one without any record that holds both keys.

    >>> from fltoolkit import History
    >>> ends = (1.0, 0.75, 0.5)
    >>> runs = [History([{"step": 0, "loss": 2.0}, {"step": 4, "loss": end}]) for end in ends]
    >>> curves({"three seeds": runs}, "loss", "step").get_label()
    'three seeds ends at loss 0.75, step 4 (mean of 3 runs, 95 % interval (t): 0.129 to 1.37)'
    """
    named = {"": histories} if isinstance(histories, History) else histories
    if not named:
        raise ValueError("no histories to plot: pass a History or {name: History}")
    runs = {name: [h] if isinstance(h, History) else h for name, h in named.items()}
    rows = {name: [_points(run, x, y, name) for run in each] for name, each in runs.items()}
    bands = {name: _band(each, name, "accuracy" in y) for name, each in rows.items()}
    ax = ax or new_axes()
    label_x, unit_x = axis_of(x, max(band[0].max() for band in bands.values()))
    label_y, unit_y = axis_of(y, max(band[3].max() for band in bands.values()))
    if x == "step":
        label_x = "round" if all(map(_of_rounds, runs.values())) else label_x
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))  # there is no round 2.5
    ax.set(xlabel=label_x, ylabel=label_y)
    tidy(ax)
    ends, sentences = [], []
    looks = zip(cycle(COLORS), cycle(DASHES), cycle(_MARKERS), strict=False)
    for (name, band), look in zip(bands.items(), looks, strict=False):
        xs, low, mean, high = band
        num_runs = len(rows[name])
        scaled = (xs * unit_x, low * unit_y, mean * unit_y, high * unit_y)
        _draw_line(ax, name, scaled, look, num_runs)
        last, end = amount(y, mean[-1]), amount(x, xs[-1])
        apart = num_runs > 1 and _apart(rows[name])
        note = ", mean of the ends" * apart
        ends.append((mean[-1] * unit_y, f"{name} {last}{note}".strip(), *look[:2]))
        sentence = f"{name or 'the line'} ends at {bare(label_y)} {last}, {bare(label_x)} {end}"
        if num_runs > 1:
            interval = f"{amount(y, low[-1])} to {amount(y, high[-1])}"
            runs_at = f"{num_runs} runs" + f" that share no range of {bare(label_x)}" * apart
            sentence += f" (mean of {runs_at}, 95 % interval (t): {interval})"
        sentences.append(sentence)
    _label_ends(ax, ends)
    return describe(ax, "; ".join(sentences))


def ledger(channels: Channel | Mapping[str, Channel], ax: Axes | None = None) -> Axes:
    """Bytes sent for each (sender -> receiver, kind), in the order of their first message.

    Each bar is payload plus headers. The text beside it gives the total, the number of messages,
    and the size of the headers, or for compressed messages the size without compression. Pass
    {name: Channel} to compare protocols.

    >>> import torch
    >>> channel = Channel()
    >>> _ = channel.send("alice", "bob", "activations", {"h": torch.zeros(4, 8)})
    >>> ledger(channel).get_label()
    'alice → bob activations: 139 B in 1 message, of which headers 11 B'
    """
    named = channels if isinstance(channels, Mapping) else {"": channels}
    rows: dict[str, list[int]] = {}  # messages, bytes, bytes of the values uncompressed
    for name, channel in named.items():
        for t in channel.transfers:
            title = f"{name}: " * bool(name) + f"{t.sender} → {t.receiver}\n{t.kind}"
            row = rows.setdefault(title, [0, 0, 0])
            row[:] = row[0] + 1, row[1] + t.nbytes, row[2] + t.nbytes_dense
    if not rows:
        raise ValueError("no message went through this channel yet: train a step, then plot it")
    ax = ax or new_axes(height=1.2 + 0.5 * len(rows))
    unit, size = byte_unit(max(row[1] for row in rows.values()))
    sentences = []
    for place, (title, (count, nbytes, dense)) in enumerate(rows.items()):
        payload = min(nbytes, dense)
        ax.barh(place, payload / size, color=COLORS[0])
        ax.barh(place, (nbytes - payload) / size, left=payload / size, color=COLORS[1], hatch="///")
        words = f"{nbytes:,} B in {count:,} message{'s' * (count != 1)}"
        if nbytes >= dense:
            parts = f"of which headers {nbytes - dense:,} B"
        else:
            parts = f"compressed from {dense:,} B"
        beside: Any = {"textcoords": "offset points", "va": "center"}
        ax.annotate(f"{words}\n{parts}", (nbytes / size, place), (5, 0), **beside)
        sentences.append(f"{title}: {words}, {parts}".replace("\n", " "))
    ax.set_yticks(range(len(rows)), list(rows))
    ax.invert_yaxis()
    ax.set_xlabel(f"bytes sent [{unit}]: payload (blue) and headers (hatched)")
    ax.set_ylabel("link and kind")
    tidy(ax)
    ax.grid(axis="y", visible=False)
    return describe(ax, "; ".join(sentences))


def partition(labels: Tensor, parts: Sequence[Tensor], ax: Axes | None = None) -> Axes:
    """The number of samples of each class (rows) at each client (columns).

    ``labels`` [samples] are class numbers from 0; ``parts`` are for each client the indices into
    them, as `data.partition_iid` gives them.

    >>> import torch
    >>> labels = torch.tensor([0, 0, 1, 1])
    >>> parts = [torch.tensor([0, 1, 2]), torch.tensor([3])]
    >>> partition(labels, parts).get_label().split("; ")[1]
    'client 0: 3 samples of 2 classes'
    """
    if not len(parts) or not len(labels):
        raise ValueError(f"nothing to plot: {len(labels)} labels and {len(parts)} parts")
    num_classes = int(labels.max()) + 1
    counts = np.stack(
        [labels[part].bincount(minlength=num_classes).cpu().numpy() for part in parts], axis=1
    )
    ax = ax or new_axes(height=1.2 + 0.26 * min(num_classes, 20))
    image = ax.imshow(counts, cmap="Blues", vmin=0, aspect="auto", interpolation="nearest")
    ax.set(xlabel="client", ylabel="class")
    if len(parts) <= 12 and num_classes <= 20:
        ax.set_xlabel("client (in the cells: samples)")
        ax.set_yticks(range(num_classes))
        ax.set_xticks(range(len(parts)))
        for (label, client), count in np.ndenumerate(counts):
            color = "white" if count > 0.6 * counts.max() else "black"
            ax.text(client, label, f"{count:,}", ha="center", va="center", color=color, fontsize=8)
    else:
        ax.figure.colorbar(image, ax=ax, label="samples")
    sizes, kinds = counts.sum(axis=0), (counts > 0).sum(axis=0)
    sentences = [
        f"client {client}: {size:,} samples of {kind} classes"
        for client, (size, kind) in enumerate(zip(sizes[:12], kinds[:12], strict=True))
    ]
    total = f"{len(parts)} clients with {sizes.min():,} to {sizes.max():,} samples"
    total += f" of {kinds.min()} to {kinds.max()} classes"
    return describe(ax, "; ".join([total, *sentences]))


def _draw_line(
    ax: Axes, name: str, band: _Band, look: tuple[str, tuple[int, ...], str], num_runs: int
) -> None:
    """The line of one run, with bars where x stands still, or the mean of several in its band."""
    (xs, low, mean, high), (color, dash, marker) = band, look
    if num_runs == 1:
        xs, mean, ranges = _upright(xs, mean)
        for at, least, most in ranges:
            ax.plot([at, at], [least, most], color=color, alpha=0.3, linewidth=5)
    style: dict[str, Any] = {"color": color, "marker": marker}
    style["linestyle"] = (0, dash) if dash else "-"
    every = max(1, len(xs) // 8)
    ax.plot(xs, mean, label=name or "_", markersize=4, markevery=every, **style)
    if num_runs > 1:
        if len(xs) == 1:  # a band of no width could not be seen
            ax.vlines(xs, low, high, color=color, label=f"_{name}")  # in no legend
        ax.fill_between(xs, low, high, color=color, alpha=0.2, linewidth=0)


def _of_rounds(runs: Sequence[History]) -> bool:
    """Whether each step of these runs is a round, as in FedAvg; in a relay a round has many."""
    last = [run[-1] for run in runs if len(run)]
    return all(int(r.get("step", 0)) - int(r.get("round", -2)) in (0, 1) for r in last)


def _points(history: History, x: str, y: str, name: str) -> np.ndarray:
    """The (x, y) rows of ``history``, shape (records, 2)."""
    rows = history.having(x, y)
    if not len(rows):
        known = sorted({key for record in history for key in record})
        raise ValueError(
            f"history {name!r} has no record with both {x!r} and {y!r}; "
            + (f"its keys are {known}. " if known else "it is empty. ")
            + "Evaluations are added to a run by fltoolkit.history.evaluated(...)."
        )
    return np.array([rows.column(x), rows.column(y)], dtype=float).T


def _apart(runs: Sequence[np.ndarray]) -> bool:
    """Whether no x lies between the ends of all runs."""
    return bool(max(run[0, 0] for run in runs) > min(run[-1, 0] for run in runs))


def _band(runs: Sequence[np.ndarray], name: str, share: bool) -> _Band:
    """x, and of several runs lower end, mean and upper end, over the range of x that all cover.

    Runs without a common range give one point, the mean of their ends. No share is beyond 0 or 1.
    """
    if not runs:
        raise ValueError(f"{name!r} has an empty list of histories: give at least one run")
    if len(runs) == 1:  # drawn unchanged, since x may repeat or decrease
        xs, ys = runs[0].T
        return xs, ys, ys, ys
    if _apart(runs):
        xs = np.mean([run[-1:, 0] for run in runs], axis=0)
        ys = np.stack([run[-1:, 1] for run in runs])
    else:
        start, end = max(run[0, 0] for run in runs), min(run[-1, 0] for run in runs)
        xs = np.unique(np.concatenate([run[:, 0] for run in runs]).clip(start, end))
        ys = np.stack([np.interp(xs, run[:, 0], run[:, 1]) for run in runs])
    middle = ys.mean(axis=0)
    half = t_quantile(len(runs)) * ys.std(axis=0, ddof=1) / math.sqrt(len(runs))
    low, high = middle - half, middle + half
    return xs, low.clip(0) if share else low, middle, high.clip(max=1) if share else high


def _upright(
    xs: np.ndarray, ys: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[tuple[float, float, float]]]:
    """A line without its zigzag where ``x`` stands still: the first and the last point stay.

    It stands still where at least four times as many points as on average lie in 0.2 % of the
    axis. The list has x, the least and the largest y of each such place.
    """
    share = 0.002
    near, many = share * float(np.ptp(xs)), max(2.0, 4 * share * len(xs))
    starts = [0]
    for k, x in enumerate(xs):
        if not xs[starts[-1]] <= x <= xs[starts[-1]] + near:
            starts.append(k)
    kept: list[int] = []
    ranges: list[tuple[float, float, float]] = []
    for start, end in zip(starts, [*starts[1:], len(xs)], strict=True):
        if end - start <= many:
            kept += range(start, end)
            continue
        kept += [start, end - 1]
        part = ys[start:end]
        ranges.append((float(xs[end - 1]), float(part.min()), float(part.max())))
    return xs[kept], ys[kept], ranges


def bare(label: str) -> str:
    """The axis label without its unit."""
    return label.split(" [")[0]


def _label_ends(ax: Axes, ends: list[tuple[float, str, str, tuple[int, ...]]]) -> None:
    """Write each text right of the axes near the height of its line's end, moved apart as needed.

    A piece of the line stands before its name. No line leads from one to the other: where a run
    ends early it would cross the axes, and be read as data.
    """
    for y, words, color, dash in ends:
        sample: dict[str, Any] = {"arrowstyle": "-", "color": color, "linewidth": 1.5}
        sample |= {"linestyle": (0, dash) if dash else "-", "shrinkA": 2, "shrinkB": 0}
        label: Any = ax.annotate(
            words, (1.01, y), (1.07, 0.5), xycoords=ax.get_yaxis_transform(),
            textcoords="axes fraction", color=color, va="center", arrowprops=sample,
            annotation_clip=False,
        )  # fmt: skip
        label.set_gid(END_OF_LINE)
        label.height_of_end = y
    spread_ends(ax)


END_OF_LINE = "the end of a line"
"""Marks a text that `spread_ends` may move."""


def spread_ends(ax: Axes) -> None:
    """Move the texts at the ends of lines apart, for the present size of figure and letters."""
    texts = (text for text in ax.texts if text.get_gid() == END_OF_LINE and text.get_visible())
    labels: list[Any] = list(texts)
    for _ in range(2 * bool(labels)):  # labels change the size of the axes, and so where lines end
        ax.figure.canvas.figure.draw_without_rendering()  # this computes the sizes
        pixels = [ax.transData.transform((0, label.height_of_end))[1] for label in labels]
        line_height = 1.2 * max(Text.get_window_extent(label).height for label in labels)
        for label, pixel in zip(labels, keep_apart(pixels, line_height), strict=True):
            label.set_y(ax.transAxes.inverted().transform((0, pixel))[1])
            label.xy = label.xy[0], ax.transData.inverted().transform((0, pixel))[1]


def keep_apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions at least ``gap`` apart, in the order of ``wanted`` and as near to it as can be."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    blocks: list[list[float]] = []  # [sum, count] of neighbours that had to be pushed apart
    for rank, index in enumerate(order):
        blocks.append([wanted[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            total, size = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += size
    levels = [total / size for total, size in blocks for _ in range(int(size))]
    places = {index: levels[rank] + rank * gap for rank, index in enumerate(order)}
    return [places[index] for index in range(len(wanted))]
