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
from experiments.runs import Result, Row, Runs, converged, differences, share_ci
from experiments.tables import markdown
from fltoolkit import plots
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
        rows.append((setting, {seed: results[k] for seed, k in keys.items() if k in results}))
    return converged(rows)


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
    """A figure for each data set: originals, and below them the attacker's guesses."""
    for task in TASKS.values():
        runs = {
            s.name: runs.get(0) for s, runs in rows_of(task, results) if s.part in (UP, DEFENCES)
        }
        found = {name: run for name in SHOWN if (run := runs.get(name)) and "shown" in run}
        if not found:
            continue
        lines = {"originals": next(iter(found.values()))["originals"]}
        lines |= {name: run["shown"] for name, run in found.items()}
        figure = plots.new_figure(width=8, height=5)
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
        figure.savefig(folder / f"leakage_{task.data}.png", dpi=120)


def _column(runs: Runs, key: str) -> list[Any]:
    return [run[key] for run in runs.values()]
