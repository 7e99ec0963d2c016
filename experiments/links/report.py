"""The model beside the clock, and what pays on which link: Markdown text."""

from collections.abc import Sequence
from statistics import mean, median

from experiments.links.emulator import mtu
from experiments.links.methods import METHODS
from experiments.runs import Result, Row, spread_of

HEADERS = 52  # bytes of IP and TCP with its time stamps, in each packet
GROUPS = (
    ("SplitNN, float32", "SplitNN, 8 bits", "SplitNN, 4 bits, coded", "silent states, 8 bits"),
    ("FedAvg, float32", "FedAvg, 3 bits both ways"),
)


def simple(result: Result, told: Result) -> float:
    """Seconds by `fltoolkit.research.seconds_on`, each way at its rate, and those of computing."""
    sent = told["nbytes_up"] / result["up"] + told["nbytes_down"] / result["down"]
    return sent + told["messages"] * result["latency"] + computing(told)


def with_headers(result: Result, told: Result) -> float:
    """The same with the headers of the packets that a message is cut into."""
    share = {way: mtu(result[way]) / (mtu(result[way]) - HEADERS) for way in ("up", "down")}
    sent = sum(told[f"nbytes_{way}"] * share[way] / result[way] for way in share)
    return sent + told["messages"] * result["latency"] + computing(told)


def computing(told: Result) -> float:
    """Processor seconds of both sides: they take turns."""
    return told["cpu_client"] + told["cpu_server"]


def report(rows: Sequence[Row]) -> str:
    """All tables."""
    if not rows:
        return "no runs yet"
    blocks = [errors(rows)]
    for group in GROUPS:
        blocks += [seconds(rows, group)]
    return "\n\n".join([*blocks, details(rows)])


def errors(rows: Sequence[Row]) -> str:
    """How far both models are from the clock, over all links and methods."""
    lines = [
        "| model | median of clock / model | least | most | within 5 % |",
        "|---|---|---|---|---|",
    ]
    for name, model in (
        ("bytes / rate + messages x latency + computing", simple),
        ("with packets' headers", with_headers),
    ):
        ratios = [median(t["wall"] / model(r, t) for r, t in runs) for _, runs in by_method(rows)]
        within = sum(abs(ratio - 1) <= 0.05 for ratio in ratios)
        lines.append(
            f"| {name} | {median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} "
            f"| {within} of {len(ratios)} |"
        )
    return "\n".join(lines)


def by_method(rows: Sequence[Row]) -> list[tuple[tuple[str, str], list[tuple[Result, Result]]]]:
    """(link, method) and its repeats: each the whole result and what the method told."""
    found = []
    for setting, runs in rows:
        for name in METHODS:
            pairs = [(r, t) for r in runs.values() for t in r["methods"] if t["method"] == name]
            found.append(((setting.name, name), pairs))
    return found


def seconds(rows: Sequence[Row], group: Sequence[str]) -> str:
    """Milliseconds a unit by link, the least of a row in bold."""
    unit = METHODS[group[0]].unit
    lines = [
        f"| link, milliseconds a {unit} | {' | '.join(group)} |",
        "|---|" + "---|" * len(group),
    ]
    for setting, runs in rows:
        cells = []
        for name in group:
            told = [t for r in runs.values() for t in r["methods"] if t["method"] == name]
            cells.append([1000 * t["wall"] / t["count"] for t in told])
        least = min(mean(cell) for cell in cells)
        words = [
            f"**{spread_of(c, ',.0f')}**" if mean(c) == least else spread_of(c, ",.0f")
            for c in cells
        ]
        lines.append(f"| {setting.name} | {' | '.join(words)} |")
    return "\n".join(lines)


def details(rows: Sequence[Row]) -> str:
    """Bytes of messages and of packets, processor time and clock, a row a link and method."""
    lines = [
        "| link | method | kB a unit, up / down | packets / messages | computing [s] | clock [s] "
        "| clock / model |",
        "|---|---|---|---|---|---|---|",
    ]
    for (link, name), runs in by_method(rows):
        first = runs[0][1]
        up, down = (first[f"nbytes_{way}"] / first["count"] / 1000 for way in ("up", "down"))
        below = mean(
            (t["below_up"] + t["below_down"]) / (t["nbytes_up"] + t["nbytes_down"]) for _, t in runs
        )
        lines.append(
            f"| {link} | {name} | {up:,.1f} / {down:,.1f} | {below:.2f} "
            f"| {spread_of([computing(t) for _, t in runs])} "
            f"| {spread_of([t['wall'] for _, t in runs])} "
            f"| {spread_of([t['wall'] / with_headers(r, t) for r, t in runs])} |"
        )
    return "\n".join(lines)
