"""Intervals in the sentences of the pages of results are those that a command prints."""

import re
from pathlib import Path

import pytest

from experiments import readme

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("results", "language_results", "async_states", "fedavg_results", "newer_methods")
NUMBER = r"[-+]?\d+(?:\.\d+)?"
TOLD = re.compile(rf"(?:({NUMBER})(?: [a-z%]+)? )?\[({NUMBER}), ({NUMBER})\]")


def parts(text: str) -> tuple[str, str]:
    """What commands print (tables, blocks of code, what stands between two marks), and the rest."""
    printed, prose, inside, code = [], [], False, False
    for line in text.splitlines():
        inside ^= line.startswith("<!--")
        code ^= line.startswith("```")
        (printed if inside or code or line.startswith("|") else prose).append(line)
    return "\n".join(printed), " ".join(prose)


def intervals(text: str) -> list[tuple[float, ...]]:
    """Mean and ends of each interval, or the ends alone where no number stands before them."""
    text = re.sub(r"[ \n]+", " ", text.replace("*", ""))  # stars, and commas of thousands, go
    found = TOLD.findall(re.sub(r"(?<=\d),(?=\d{3})", "", text))
    return [tuple(map(float, filter(None, each))) for each in found]


@pytest.mark.later
@pytest.mark.parametrize("page", PAGES)
def test_each_interval_of_a_sentence_is_printed(page: str) -> None:
    texts = {name: parts((DOCS / f"{name}.md").read_text("utf-8")) for name in (*PAGES, "audit")}
    printed = "\n".join([*(text for text, _ in texts.values()), *readme.phrases()])
    known: set[tuple[float, ...]] = set()
    for found in intervals(printed):
        turned = tuple(-each for each in (*found[:-2], *found[:-3:-1]))  # signs the other way
        known |= {found, turned, found[-2:], turned[-2:]}
    assert not [each for each in intervals(texts[page][1]) if each not in known]
