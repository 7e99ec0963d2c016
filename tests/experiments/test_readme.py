"""README's table and the measured headlines are those that stored results print."""

import re
from pathlib import Path

import pytest

from experiments import readme
from experiments.runs import put_between

ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "results.md"


def plain(text: str) -> str:
    """Without line breaks and stars."""
    return re.sub(r"\s+", " ", text.replace("**", ""))


@pytest.fixture(scope="module")
def printed() -> list[str]:
    return list(readme.phrases())


@pytest.mark.later
def test_each_headline_stands_on_the_page_of_results(printed: list[str]) -> None:
    text = plain(PAGE.read_text(encoding="utf-8"))
    assert not [phrase for phrase in printed if phrase not in text]
    assert len(printed) >= 15


def test_no_factor_stands_there_that_nothing_prints(printed: list[str]) -> None:
    """Each "... times fewer bytes" and "... times the data" of the list of results is printed."""
    text = plain(PAGE.read_text(encoding="utf-8"))
    results = text[text.index("The main results of all") : text.index("Published claims")]
    pattern = r"[\d.,]+ times (?:fewer bytes|the data)"
    found, known = (set(re.findall(pattern, some)) for some in (results, " ".join(printed)))
    assert found
    assert found <= known


@pytest.mark.later
def test_readme_has_the_table_and_few_words() -> None:
    text = README.read_text(encoding="utf-8")
    assert put_between(text, readme.BEGIN, readme.END, readme.table()) == text
    assert len(text.split()) <= 1100
