"""One HTML file about a sweep: plots, tables, ledgers, settings. It loads nothing from a network.

Here: the page. Not here: its numbers (research.analysis) and pictures (fronts.py).
"""

import html
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fltoolkit.plots.figures import curves
from fltoolkit.plots.style import picture, summary
from fltoolkit_research.analysis import (
    by_task,
    failures,
    front,
    groups,
    metric_of,
    points,
    sizes_of,
)
from fltoolkit_research.plots.fronts import over_seconds, pareto, three_sizes
from fltoolkit_research.store import Result
from fltoolkit_research.tables import data_nbytes, table

LINKS = (("a home uplink", 1.25e6, 0.03), ("a weak mobile link", 31_250.0, 0.15))
"""Name, bytes per second (10 Mbit/s and 250 kbit/s), and seconds of latency per message."""

_STYLE = """
body { font-family: sans-serif; max-width: 1000px; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .25em .7em }
td, th { text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left } tr { border-bottom: 1px solid #ddd }
img { max-width: 100% } pre { background: #f4f4f4; padding: .8em; overflow: auto; font-size: .85em }
figcaption, .small { color: #555; font-size: .9em } summary { cursor: pointer; padding: .2em 0 }
"""


def html_report(
    results: Iterable[Result],
    *,
    title: str = "sweep",
    target: float | None = None,
    budget: float | None = None,
    against: str | None = None,
) -> str:
    """The whole page as text; `fltoolkit_research.table` explains ``target``, ``budget``
    and ``against``.

    Each task (data, model, clients, partition) has its own part of the page, since results on
    different tasks cannot be compared. Raises ValueError if no experiment has finished.

    >>> from fltoolkit.history import History
    >>> from fltoolkit_research.experiment import Experiment
    >>> record = {"accuracy": 0.9, "nbytes": 900, "nbytes_activations_up": 900, "num_waits": 9}
    >>> page = html_report([Result(Experiment(), History([record]), "", 1.0)], title="my sweep")
    >>> "<h1>my sweep</h1>" in page, "http" in page  # nothing is loaded from a network
    (True, False)
    """
    results = list(results)
    tasks = by_task(result for result in results if not result.error)
    if not tasks:
        raise ValueError(f"none of the {len(results)} experiments has finished: nothing to report")
    parts = [f"<h1>{html.escape(title)}</h1>", _intro(results)]
    for task, mine in tasks.items():
        parts += [f"<h2>{html.escape(task)}</h2>", *_task(mine, target, budget, against)]
    if broken := failures(results):
        rows = [f"<tr><td>{html.escape(k)}<td>{html.escape(e)}" for k, e in broken.items()]
        parts += ["<h2>What failed</h2><table>", *rows, "</table>"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"
    )


def _intro(results: Sequence[Result]) -> str:
    took = sum(result.seconds for result in results)
    return (
        f'<p class="small">{len(results)} runs, {took / 60:,.1f} minutes of training, written on '
        f"{time.strftime('%Y-%m-%d')} by fltoolkit report. Bytes are all that was sent, in all "
        "directions, headers included; kB is 1,000 bytes. In brackets, as bars and as bands stand "
        "95 % confidence intervals of means over the seeds, by Student's t; differences are paired "
        "by seed.</p>"
    )


def _task(
    results: list[Result], target: float | None, budget: float | None, against: str | None
) -> Iterable[str]:
    by_name, found = groups(results), points(results)
    yield _figure(
        lambda: pareto(results),
        "Each mark is one setting at the end of its training; those without a name are grey. The "
        "grey line is the best value that any training had reached by then: also on its way, so it "
        "may lie above the marks.",
    )
    how: dict[str, Any] = {"target": target, "budget": budget, "against": against}
    yield _table(table(results, **how, data_nbytes=data_nbytes))
    best = [point.name for point in front(found)]
    metric = metric_of(result.experiment for result in results)
    lines = {name: [run.history for run in by_name[name]] for name in best[-6:]}
    yield "<h3>The settings on the front</h3>"
    yield _figure(
        lambda: curves(lines, metric.name, "nbytes"),
        "The metric during training, over the bytes sent so far. A setting whose seeds share no "
        "range of bytes, such as samples sent once, is a point: the mean of their ends.",
    )
    for name, rate, latency in LINKS:
        words = f"{name}: {8 * rate / 1e6:g} Mbit/s, {1000 * latency:g} ms per message"
        yield _figure(
            lambda r=rate, s=latency: over_seconds(lines, rate=r, latency=s, metric=metric),
            f"The same over the time on {words}. The time for computing is not included.",
        )
    last = {name: by_name[name][0].history[-1] for name in best[-3:]}
    if any(sizes_of(record) for record in last.values()):  # what sends nothing has no sizes
        yield "<h3>The ledger</h3>"
        yield _figure(
            lambda: three_sizes(last),
            "Nominal size, real size, and the entropy of the symbols as if they were independent.",
        )
    yield "<h3>Settings</h3>"
    for point in found:
        code = html.escape(point.experiment.to_code())
        yield f"<details><summary>{html.escape(point.name)}</summary><pre>{code}</pre></details>"


def _figure(draw: Callable, caption: str) -> str:
    """A picture inside the page, with its numbers as alternative text."""
    ax = draw()
    words = summary(ax)
    data, metadata = picture(ax.figure.canvas.figure, words)
    return (
        f'<figure><img alt="{html.escape(words)}" width="{metadata["image/png"]["width"]}" '
        f'src="data:image/png;base64,{data["image/png"]}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def _table(markdown: str) -> str:
    head, _, *body = (line.strip("|").split("|") for line in markdown.splitlines())
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(cell.strip())}" for cell in head)]
    lines += ["<tr>" + "".join(f"<td>{html.escape(cell.strip())}" for cell in row) for row in body]
    return "\n".join([*lines, "</table>"])
