"""The board: a table of entries, verified; and the history of the records as a figure."""

from collections.abc import Iterable
from pathlib import Path

from fltoolkit_contest.card import Card, read_card


def board(cards: Iterable[Card]) -> str:
    """A table of cards for each track and league, fewest bytes first, and entries that failed last.

    >>> board([])
    ''
    """
    groups: dict[tuple[str, str], list[Card]] = {}
    for card in cards:
        groups.setdefault((card.track, card.league), []).append(card)
    parts = []
    for (track, league), mine in sorted(groups.items()):
        mine.sort(key=lambda card: (not card.accepted, card.nbytes, card.name))
        lines = [
            f"### {track}, {league}",
            "",
            "| | entry | bytes | mean | bound | times the data |",
        ]
        lines.append("|---|---|---|---|---|---|")
        for place, card in enumerate(mine, 1):
            rank = str(place) if card.accepted else "not accepted"
            times = f"{card.nbytes / card.data_nbytes:.3g}"
            row = [rank, card.name, f"{card.nbytes:,}", card.value(card.score)]
            lines.append("| " + " | ".join([*row, card.value(card.bound), times]) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def read_records(folder: Path) -> list[tuple[str, Card]]:
    """The records below a folder, as (date, card): ``TRACK/NAME/card.json`` with its note's date.

    A note begins with a line such as ``2026-11-23, builds on null``. A record with a file
    ``refuted.md`` counts as not accepted.

    >>> read_records(Path("no such folder"))
    []
    """
    found = []
    for path in sorted(folder.glob("*/*/card.json")):
        note = (path.parent / "note.md").read_text(encoding="utf-8")
        card = read_card(path)
        if (refuted := path.parent / "refuted.md").exists():
            card.name += f" (refuted {refuted.read_text(encoding='utf-8')[:10]})"
            card.accepted = False
        found.append((note[:10], card))
    return sorted(found, key=lambda pair: (pair[0], -pair[1].nbytes))


def draw_history(found: list[tuple[str, Card]], path: Path) -> None:
    """Draw bytes of the records, one after the other, on a logarithmic axis (PNG or SVG).

    ``fltoolkit cup history cup/records --out history.svg`` calls this function.
    """
    from matplotlib.figure import Figure

    groups: dict[str, list[tuple[str, Card]]] = {}
    for date, card in found:
        if card.accepted:
            groups.setdefault(f"{card.track}, {card.league}", []).append((date, card))
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(ylabel="bytes", xlabel="records, in order of date", yscale="log")
    for name, pairs in sorted(groups.items()):
        heights = [card.nbytes for _, card in pairs]
        axes.step(range(len(heights)), heights, where="post", marker="o", label=name)
        axes.annotate(f"{heights[-1]:,}", (len(heights) - 1, heights[-1]), size=8)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
