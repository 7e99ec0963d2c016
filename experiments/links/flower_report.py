"""Tables of the runs over Flower: what a round costs, and where its seconds go. Markdown text."""

import itertools
from collections.abc import Iterator, Sequence
from statistics import mean, median

from experiments.links.report import computing, simple
from experiments.runs import Page, Result, Row
from experiments.tables import markdown
from fltoolkit_research.intervals import mean_ci

PAGE = Page(
    "links", "<!-- begin: python -m experiments.links.flower --write -->", "<!-- end: flower -->"
)
METHODS = ("FedAvg, float32", "FedAvg, 3 bits both ways")
WARM = 1  # rounds before the clock starts, in which connections are opened
POLL = 3.0  # seconds between two questions of a SuperNode, and of a ServerApp, in flwr 1.41
TURNS = 3  # one for the message's head, two for its parts, of which two come at a time


def report(rows: Sequence[Row]) -> str:
    """Both tables, and what they have in common."""
    if not rows:
        return "no runs yet"
    found = [(result, t) for _, runs in rows for result in runs.values() for t in result["methods"]]
    rounds = sum(t["count"] for _, t in found)
    process, cpu = (sum(t[name] for _, t in found) for name in ("cpu_process", "cpu_client"))
    bare = [t["wall"] / simple(result, t) for result, t in found]
    full = [t["wall"] / sum(map(sum, stages(result, t))) for result, t in found]
    clock = [parts for _, t in found for parts in measured(t)]
    app = sum(parts[2] for parts in clock) / sum(map(sum, clock))  # its share
    within = sum(abs(ratio - 1) <= 0.05 for ratio in full)
    predicted = [without_app(measured(t)) / without_app(stages(result, t)) for result, t in found]
    more = ", ".join(
        " / ".join(f"{median(beyond(t, way) for t in own) / 1000:.1f}" for way in ("up", "down"))
        + f" kB ({name})"
        for name in METHODS
        if (own := [t for _, t in found if t["method"] == name])
    )
    repeats = sorted({len(runs) for _, runs in rows})
    counts = sorted({t["count"] for _, t in found})
    longest = [t for _, t in found if t["count"] == counts[-1]]
    accuracy = ", ".join(
        f"{100 * median(t['accuracy'] for t in longest if t['method'] == name):.1f} % ({name})"
        for name in METHODS
    )
    return "\n\n".join(
        (
            f"flwr {', '.join(sorted({result['flwr'] for result, _ in found}))}; rounds of each "
            f"method on each link: {' or '.join(map(str, counts))}, after {WARM} that is not "
            f"counted; repeats: {' or '.join(map(str, repeats))}.",
            costs(rows),
            parts(rows),
            f"Clock / model: median {median(bare):.1f} for `seconds_on` with computing (from "
            f"{min(bare):.1f} to {max(bare):.1f}); {median(full):.2f} with the parts of the second "
            f"table (from {min(full):.2f} to {max(full):.2f}; {within} of {len(full)} within 5 %). "
            f"Of that clock {100 * app:.0f} % are the ClientApp, whose seconds are measured: "
            f"without it on both sides the median is "
            f"{median(predicted):.2f} (from {min(predicted):.2f} to {max(predicted):.2f}). "
            f"A ClientApp's process took {process / rounds:.1f} s of processor time a round, of "
            f"which training and codecs took {cpu / rounds:.2f} s. The interfaces sent more than "
            f"our messages, up / down a round: {more}. Accuracy after {WARM + counts[-1]} rounds: "
            f"{accuracy}.",
        )
    )


def beyond(method: Result, way: str) -> float:
    """Bytes per round that the interface sent and the ledger does not count."""
    return float((method[f"below_{way}"] - method[f"nbytes_{way}"]) / method["count"])


def stages(result: Result, method: Result) -> list[tuple[float, ...]]:
    """A round's seconds by the model: waiting, model down, ClientApp, update up, waiting.

    The SuperNode asks for a message when it has sent its last one, and then each `POLL` seconds.
    The ServerApp asks for the update when it has sent the model, and then each `POLL` seconds; when
    it learns of an update that is still under way, it tries again after 1, 2, 4 and more seconds.
    The ClientApp's seconds are measured. A message takes `TURNS` questions with an answer, one
    after the other, and its bytes at the link's rate.
    """
    found = []
    turn = 2 * result["latency"]
    down, up = (
        method[f"below_{way}"] / method["count"] / result[way] + TURNS * turn
        for way in ("down", "up")
    )
    for before, after in itertools.pairwise(method["rounds"][WARM - 1 :]):
        start, sent = before[0], before[-1]
        asked = -(start - sent) % POLL + turn / 2
        app = after[3] - after[2]
        begun = asked + down + app
        end, pause = begun + turn, 1.0
        end += -end % POLL
        while end < begun + up:
            end, pause = end + pause, min(2 * pause, 10.0)
        found.append((asked, down, app, up, end - begun - up))
    return found


def measured(method: Result) -> list[tuple[float, ...]]:
    """The same five parts of each round by the clock."""
    found = []
    for before, after in itertools.pairwise(method["rounds"][WARM - 1 :]):
        times = (before[0], *after[1:], after[0])
        found.append(tuple(b - a for a, b in itertools.pairwise(times)))
    return found


def without_app(rounds: Sequence[tuple[float, ...]]) -> float:
    """The seconds of all rounds, but not those of the ClientApp."""
    return sum(sum(parts) - parts[2] for parts in rounds)


def each(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], list[tuple[Result, Result]]]]:
    """A table's row begins with link and method; its repeats: the result and the method's."""
    for setting, runs in rows:
        for name in METHODS:
            pairs = [(r, t) for r in runs.values() for t in r["methods"] if t["method"] == name]
            yield (setting.name, name), pairs


def costs(rows: Sequence[Row]) -> str:
    """Bytes and seconds per round, and `seconds_on` beside the clock."""
    found = []
    for begin, pairs in each(rows):
        sizes = [
            " / ".join(
                f"{mean(t[f'{what}_{way}'] / t['count'] for _, t in pairs) / 1000:,.1f}"
                for way in ("up", "down")
            )
            for what in ("nbytes", "below")
        ]
        seconds = [
            mean_ci([computing(t) / t["count"] for _, t in pairs]),
            mean_ci([t["wall"] / t["count"] for _, t in pairs], ".1f"),
            mean_ci([t["wall"] / simple(r, t) for r, t in pairs], ".1f"),
        ]
        found.append([*begin, *sizes, *seconds])
    return markdown(
        "link | method | our messages, up / down [kB per round] | interface, up / down "
        "[kB per round] | computing [s a round] | clock [s a round] | clock / model",
        found,
    )


def parts(rows: Sequence[Row]) -> str:
    """Where a round's seconds go, by the clock, and the model that knows it."""
    found = []
    for begin, pairs in each(rows):
        rounds = [parts for _, t in pairs for parts in measured(t)]
        cells = [f"{mean(part):.2f}" for part in zip(*rounds, strict=True)]
        ratios = [t["wall"] / sum(map(sum, stages(r, t))) for r, t in pairs]
        found.append([*begin, *cells, mean_ci(ratios)])
    return markdown(
        "link, seconds per round | method | until the SuperNode asks | model down | ClientApp "
        "| update up | until the ServerApp asks | clock / model with these",
        found,
    )
