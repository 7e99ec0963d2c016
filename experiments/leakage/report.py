"""Tables and figures of the runs that are there: Markdown text, and a PNG for each data set."""

import base64
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from experiments.leakage.settings import (
    BINARY,
    DEFENCES,
    DOWN,
    NUM_SHOWN,
    PRIOR,
    TASKS,
    UP,
    Task,
    settings,
)
from experiments.runs import Result, Row, Runs, differences, share_ci
from experiments.tables import markdown
from fltoolkit import plots
from fltoolkit.plots.figures import keep_apart
from fltoolkit.plots.style import COLORS
from fltoolkit_research.intervals import mean_ci

SHOWN = (
    "float32",
    "8 bits",
    "2 bits",
    "1 bit",
    "top-k 1%",
    "noise 1",
    "NoPeek 3",
    "NoPeek 3, 2 bits",
)


def report(results: Mapping[str, Result]) -> str:
    """All tables as Markdown."""
    blocks = []
    for task in TASKS.values():
        rows = rows_of(task, results)
        if not rows:
            continue
        for part in (UP, DEFENCES, DOWN, BINARY):
            shown = (part,) if part in (DOWN, BINARY) else (PRIOR, part)
            mine = [row for row in rows if row[0].part in shown]
            if len(mine) > 1:
                table = down_table(mine) if part in (DOWN, BINARY) else up_table(mine)
                blocks += [f"### {task.data}: {part}", table]
        blocks += [f"### {task.data}: the surprises", surprises(rows), effort(task, rows, results)]
    return "\n\n".join(blocks) or "no runs yet"


def rows_of(task: Task, results: Mapping[str, Result]) -> list[Row]:
    """Each setting with its runs that did not diverge, of all seeds that any run has."""
    rows, seeds = [], sorted({run["seed"] for run in results.values()})
    for setting in settings():
        keys = {seed: setting.key(task, seed) for seed in seeds}
        runs = {seed: results[key] for seed, key in keys.items() if key in results}
        runs = {seed: run for seed, run in runs.items() if "diverged" not in run}
        if runs:
            rows.append((setting, runs))
    return rows


def up_table(rows: Sequence[Row]) -> str:
    """What the label party can learn about the inputs."""
    found = []
    for setting, runs in rows:
        explained = share_ci(_column(runs, "explained_variance"), ".3f", least=-inf, most=1)
        if setting.part == PRIOR:
            found.append([setting.name, len(runs), "", "0", "", "", explained, ""])
            continue
        cells = [
            share_ci([100 * run["accuracy"] for run in runs.values()], ".1f"),
            f"{mean(_column(runs, 'nbytes_up')):,.1f}",
            mean_ci(_column(runs, "dcor"), ".3f"),
            mean_ci([max(value, 0) ** 0.5 for value in _column(runs, "corrected_dcor")], ".3f"),
            explained,
            mean_ci([value for value in _column(runs, "positions") if value is not None], ".3f"),
        ]
        found.append([setting.name, len(runs), *cells])
    return markdown(
        "setting | seeds | accuracy [%] | B a sample up | dCor | dCor, corrected "
        "| explained variance | by positions alone",
        found,
    )


def down_table(rows: Sequence[Row]) -> str:
    """What the client can learn about the labels, in the epoch that gives most away."""
    binary = rows[0][0].binary
    quality = "AUC of the task" if binary else "accuracy [%]"
    found = []
    for setting, runs in rows:
        good = _column(runs, "task_auc") if binary else [100 * a for a in _column(runs, "accuracy")]
        cells = [
            share_ci(good, ".3f" if binary else ".1f", most=1 if binary else 100),
            f"{mean(_column(runs, 'nbytes_down')):,.1f}",
        ]
        for attack in ("norm_auc", "direction_auc"):
            for of in (max, mean):
                cells.append(share_ci([of(each) for each in _column(runs, attack)], ".2f", most=1))
        found.append([setting.name, len(runs), *cells])
    return markdown(
        f"setting | seeds | {quality} | B a sample down | AUC by length, best epoch "
        "| mean of epochs | AUC by direction, best epoch | mean of epochs",
        found,
    )


def surprises(rows: Sequence[Row]) -> str:
    """What others found, beside what these runs say."""
    of = {setting.name: runs for setting, runs in rows if setting.part in (UP, DEFENCES)}
    lines, known = [], {s.name: runs for s, runs in rows if s.part == PRIOR}
    for name, runs in known.items():
        most = mean(_column(runs, "explained_variance"))
        less = [n for n, r in of.items() if mean(_column(r, "explained_variance")) < most]
        lines.append(
            f"- Do settings tell less than {name}? {len(less)} of {len(of)} explain less than its "
            f"{most:.3f} in the mean{': ' * bool(less)}{', '.join(less)}."
        )
    if "8 bits" in of and "float32" in of:
        change = differences(of["8 bits"], of["float32"], "explained_variance", 1.0)
        lines.append(
            "- Do 8 bits protect anything? Explained variance changes by "
            f"{mean_ci(change, '+.4f')} against float32, seed by seed."
        )
    for name in ("top-k 10%", "top-k 1%", "RandTopK 10%", "RandTopK 1%"):
        if name in of:
            shares = [r["positions"] / r["explained_variance"] for r in of[name].values()]
            lines.append(
                f"- Does {name} leak through positions? They alone explain "
                f"{mean_ci([100 * share for share in shares], '.0f')} % of what positions and "
                "values explain together."
            )
    for name in ("NoPeek 1", "NoPeek 3"):
        if name in of and "float32" in of:
            cells = [
                mean_ci(differences(of[name], of["float32"], key, 1.0), "+.3f")
                for key in ("dcor", "explained_variance")
            ]
            lines.append(
                f"- {name} lowers what it trains on, distance correlation by {cells[0]}, and "
                f"explained variance by {cells[1]}."
            )
    return "\n".join(lines)


def effort(task: Task, rows: Sequence[Row], results: Mapping[str, Result]) -> str:
    """What was run, and what is in no table because it diverged."""
    num_runs = len({run["key"] for s, runs in rows if s.part != PRIOR for run in runs.values()})
    lost = [r for r in results.values() if r["data"] == task.data and "diverged" in r]
    where = "; ".join(f"{r['name']}, seed {r['seed']}, at step {r['diverged']}" for r in lost)
    diverged = f" and {len(lost)} that diverged ({where})" if lost else ""
    return (
        f"{num_runs} runs{diverged}: {task.data}, {task.num_own:,} samples of Alice's, "
        f"{task.num_auxiliary:,} of the attacker's, {task.num_victims:,} victims, {task.epochs} "
        f"epochs, batch {task.batch_size}, plain SGD, lr {task.lr}."
    )


def draw(results: Mapping[str, Result], folder: Path) -> None:
    """A figure for each data set: leakage against bytes, and what the attacker sees."""
    for task in TASKS.values():
        rows = [row for row in rows_of(task, results) if row[0].part in (PRIOR, UP, DEFENCES)]
        if len(rows) < 5:  # too few for a picture
            continue
        figure = plots.new_figure(width=8, height=9.5)
        scatter, pictures = figure.subfigures(2, 1, height_ratios=(1.25, 1))
        _draw_points(scatter.subplots(), rows)
        _draw_pictures(pictures, {setting.name: runs.get(0) for setting, runs in rows})
        figure.savefig(folder / f"leakage_{task.data}.png", dpi=120)


def _draw_points(ax: Any, rows: Sequence[Row]) -> None:
    """Explained variance against bytes; the spread of the seeds as bars, accuracy in the name."""
    looks = {UP: (COLORS[0], "o"), DEFENCES: (COLORS[1], "s")}
    ends = []
    for setting, runs in rows:
        values = _column(runs, "explained_variance")
        if setting.part == PRIOR:
            ax.axhline(mean(values), color="#777777", linestyle=":", linewidth=1)
            words = setting.name.removeprefix("no message: ").partition(" of ")[0]
            ax.text(1600, mean(values), words, fontsize=8, ha="center", va="bottom")
            continue
        nbytes = mean(_column(runs, "nbytes_up"))
        color, marker = looks[setting.part]
        bars = [[mean(values) - min(values)], [max(values) - mean(values)]]
        ax.errorbar(nbytes, mean(values), bars, color=color, marker=marker, capsize=3)
        accuracy = 100 * mean(_column(runs, "accuracy"))
        ends.append((nbytes, mean(values), f"{setting.name} ({accuracy:.0f} %)", color))
    ax.set(xscale="log", xlabel="bytes per sample up (log)", xlim=(25, 30_000), ylim=(-0.02, 1.03))
    ax.set_xticks([30, 100, 300, 1000, 3000], ["30", "100", "300", "1,000", "3,000"])
    ax.minorticks_off()
    ax.set_ylabel("explained variance of the images: 1 is all")
    words = "codecs (circles) and defences (squares), accuracy in brackets; dotted: no message"
    ax.set_title(words, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    crowded = sorted((end for end in ends if end[0] > 2000), key=lambda end: end[1])
    places = keep_apart([end[1] for end in crowded], 0.042)
    for (x, y, words, color), place in zip(crowded, places, strict=True):
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.6}
        ax.annotate(words, (x, y), (4200, place), color=color, va="center", arrowprops=line)
    free = [end for end in ends if end[0] <= 2000]
    for x, y, words, color in free:  # the upper one of two neighbours has its name above
        above = any(
            abs(np.log(x / u)) < 0.2 and 0 <= y - v < 0.08 for u, v, w, _ in free if w != words
        )
        place = (6, 4) if above else (6, -9)
        ax.annotate(words, (x, y), place, textcoords="offset points", color=color, fontsize=8)


def _draw_pictures(figure: Any, runs: Mapping[str, Result | None]) -> None:
    """Originals, and below them the attacker's guesses."""
    found = {name: run for name in SHOWN if (run := runs.get(name)) and "shown" in run}
    if not found:
        return
    lines = {"originals": next(iter(found.values()))["originals"]}
    lines |= {name: run["shown"] for name, run in found.items()}
    axes = figure.subplots(len(lines), NUM_SHOWN)
    for row, (name, encoded) in zip(axes, lines.items(), strict=True):
        pixels = np.frombuffer(base64.b64decode(encoded), np.uint8).reshape(NUM_SHOWN, -1)
        side = round(pixels.shape[1] ** 0.5)
        for ax, image in zip(row, pixels, strict=True):
            ax.imshow(image.reshape(side, side), cmap="gray_r", vmin=0, vmax=255)
            ax.set(xticks=[], yticks=[])
        words = name
        if name != "originals":
            words += f" ({found[name]['explained_variance']:.2f})"
        row[0].set_ylabel(words, rotation=0, ha="right", va="center", fontsize=9)


def _column(runs: Runs, key: str) -> list[Any]:
    return [run[key] for run in runs.values()]
