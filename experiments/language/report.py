"""Tables of the runs that are there, as Markdown, and the page that holds them."""

from collections.abc import Mapping, Sequence

from experiments.runs import Row

BEGIN, END = "<!-- tables begin: python -m experiments.language --write -->", "<!-- tables end -->"


def tables(found: Mapping[str, Sequence[Row]]) -> str:
    """All tables."""
    return ""


def page(text: str, found: Mapping[str, Sequence[Row]]) -> str:
    """The page with new tables between its two marks."""
    return text
