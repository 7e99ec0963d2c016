"""The model beside the clock, and what pays on which link: Markdown text."""

from collections.abc import Sequence
from itertools import product
from statistics import mean, median

from benchmarks.links.emulator import bucket, mtu
from benchmarks.links.methods import METHODS
from experiments.runs import Page, Result, Row, Runs
from experiments.tables import markdown
from fltoolkit_research.intervals import holm, mean_ci

PAGE = Page("links", "<!-- begin: python -m benchmarks.links --write -->", "<!-- end: links -->")
WAYS = ("up", "down")
HEADERS = 52  # bytes of IP and TCP with its time stamps, in each packet
GROUPS = (
    ("SplitNN, float32", "SplitNN, 8 bits", "SplitNN, 4 bits, coded", "silent states, 8 bits"),
    ("FedAvg, float32", "FedAvg, 3 bits both ways"),
)


def simple(result: Result, method: Result) -> float:
    """Seconds by `fltoolkit_research.seconds_on`, each way at its rate, and those of computing."""
    sent = method["nbytes_up"] / result["up"] + method["nbytes_down"] / result["down"]
    return sent + method["messages"] * result["latency"] + computing(method)


def detailed(result: Result, method: Result) -> float:
    """The same with what transport and emulator do.

    A message is cut into packets, which have headers. In gloo the receiver asks for each message.
    It does so while it waits; but when one message follows another in the same direction, the
    asking takes a latency of its own. One that is longer than the receiver's buffer is asked for
    a second time: there and back. The emulated rate is a token bucket: after a pause, as many
    bytes as the bucket holds pass at once. In a unit without messages both compute at once.
    """
    # the share of units with messages
    exchanging = min(method["messages"] / (2 * method["count"]), 1)
    longest = max(method["cpu_client"], method["cpu_server"])
    ways = method["messages"] + method["following"] + 2 * method["outgrown"]
    seconds = ways * result["latency"]
    seconds += exchanging * computing(method) + (1 - exchanging) * longest
    after_pause = (method["messages"] - method["following"]) / 2  # in each direction
    for way in WAYS:
        size = mtu(result[way])
        sent = method[f"nbytes_{way}"] * size / (size - HEADERS)
        free = min(after_pause * bucket(result[way]), sent)
        seconds += (sent - free) / result[way]
    return seconds


def computing(method: Result) -> float:
    """Seconds in which one of the two computes, codecs included: they take turns."""
    return method["cpu_client"] + method["cpu_server"]


def report(rows: Sequence[Row]) -> str:
    """All tables."""
    if not rows:
        return "no runs yet"
    blocks = [
        *("### The model and the clock", errors(rows)),
        *("### Which method is the fastest on which link", *(seconds(rows, g) for g in GROUPS)),
        *("### From which rate on a codec costs time", break_even(rows)),
    ]
    return "\n\n".join(blocks)


def errors(rows: Sequence[Row]) -> str:
    """How far both models are from the clock, over all links and methods."""
    found = []
    for name, model in (
        ("bytes / rate + messages x latency + computing", simple),
        ("the same with headers, asking, the bucket and silence", detailed),
    ):
        ratios = []
        for (_, runs), method in product(rows, METHODS):
            both = [(r, t) for r in runs.values() for t in r["methods"] if t["method"] == method]
            ratios.append(median(t["wall"] / model(r, t) for r, t in both))
        within = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
        middle = [f"{of(ratios):.2f}" for of in (median, min, max)]
        found.append([name, *middle, f"{within} of {len(ratios)}"])
    return markdown("model | median of clock / model | least | most | within 5 %", found)


def seconds(rows: Sequence[Row], group: Sequence[str]) -> str:
    """Milliseconds per unit by link; in bold what is clearly the least of a row (Holm)."""
    unit, cells = METHODS[group[0]].unit, [[_milliseconds(r, n) for n in group] for _, r in rows]
    least = [min(range(len(group)), key=lambda k: mean(row[k])) for row in cells]
    behind = [
        [a - b for a, b in zip(cell, row[k], strict=True)]
        for row, k in zip(cells, least, strict=True)
        for cell in row
    ]
    clear, found = iter(holm([each if any(each) else [] for each in behind])), []
    for (setting, _), row, best in zip(rows, cells, least, strict=True):
        words, more = [mean_ci(cell, ",.0f") for cell in row], [next(clear) for _ in row]
        if sum(more) == len(row) - 1:
            words[best] = f"**{words[best]}**"
        found.append([setting.name, *words])
    return markdown(f"link, milliseconds per {unit} | {' | '.join(group)}", found)


def _milliseconds(runs: Runs, name: str) -> list[float]:
    """Of a method's unit, in each repeat."""
    found = [t for r in runs.values() for t in r["methods"] if t["method"] == name]
    return [1000 * t["wall"] / t["count"] for t in found]


def break_even(rows: Sequence[Row]) -> str:
    """The rate at which the bytes that a codec saves take as long as the codec computes."""
    found = []
    for plain, *others in GROUPS:
        base = costs(rows, plain)
        for name in others:
            nbytes, computed = (a - b for a, b in zip(base, costs(rows, name), strict=True))
            pays = "every rate" if computed >= 0 else f"{-8e-6 * nbytes / computed:,.0f} Mbit/s"
            found.append([name, f"{nbytes / 1e6:.3f}", f"{-1000 * computed:.1f}", pays])
    return markdown(
        "method | MB saved per unit | more milliseconds of computing per unit | pays below", found
    )


def costs(rows: Sequence[Row], name: str) -> tuple[float, float]:
    """Bytes and seconds of computing of a method's unit: medians over all links and repeats."""
    every = [t for _, runs in rows for r in runs.values() for t in r["methods"]]
    found = [t for t in every if t["method"] == name]
    nbytes = median((t["nbytes_up"] + t["nbytes_down"]) / t["count"] for t in found)
    return nbytes, median(computing(t) / t["count"] for t in found)
