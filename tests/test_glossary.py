"""The glossary: each word of the course is explained, and linked where the course first uses it."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = dict(re.findall(r"^### (.+)\n\n((?:.+\n)+)", GLOSSARY, re.MULTILINE))
FIRST_USE = {  # how a notebook writes the word -> the heading's anchor
    r"gradients?": "gradients",
    r"activations?": "activations",
    r"loss": "loss",
    r"SGD": "sgd",
    r"the cut(?! at)|cut layer": "cut-layer",
    r"channel": "channel",
    r"ledger": "ledger",
    r"codecs?": "codec",
    r"relay": "relay",
    r"SplitFed": "splitfed",
    r"U-shaped?": "u-shape",
    r"vertical": "vertical-splitting",
    r"gates?": "gate",
    r"period": "period",
    r"threshold": "threshold",
    r"cache": "cache",
    r"cohort": "cohort",
    r"staleness": "staleness",
    r"quantiz\w+": "quantization",
    r"stochastic rounding": "stochastic-rounding",
    r"residuals?": "residual",
    r"error feedback": "error-feedback",
    r"top-k": "top-k",
    r"entropy": "entropy",
    r"`Difference": "difference",
    r"s_k": "s_k",
    r"Pareto": "pareto-front",
    r"null models?": "null-model",
    r"explained variance": "explained-variance",
    r"distance correlation": "distance-correlation",
    r"NoPeek": "nopeek",
    r"AUC": "auc",
    r"engines?": "engine",
    r"window": "window",
    r"nats": "nats",
    r"DDP": "ddp",
    r"DiLoCo": "diloco",
    r"outer step": "outer-step",
    r"LoRA": "lora",
    r"probe": "probe",
    r"secure sum": "secure-sum",
    r"epsilon": "epsilon",
}


def anchor(heading: str) -> str:
    return heading.lower().replace(",", "").replace(" ", "-")


def course() -> list[Path]:
    """The notebooks in the order of the map in notebook 00."""
    start = ROOT / "notebooks" / "00_start_here.ipynb"
    text = "\n\n".join(markdown(start))
    names = re.findall(r"^\| \[.*?\]\((\S+)\) \|", text, re.MULTILINE)
    return [start, *map(start.with_name, names)]


def markdown(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]


def said(text: str) -> str:
    """What a cell says in sentences: no headings, tables, blocks of code, addresses, references."""
    text = re.sub(r"^#+ References.*", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"^(#|\|).*$", "", text, flags=re.MULTILINE)


def first_cell(pattern: str) -> tuple[str, str] | None:
    """The notebook and the cell in which the course first says a word."""
    pattern_of_words = pattern.replace(" ", r"\s+")
    word = re.compile(rf"(?<![\w/#-])(?:{pattern_of_words})(?![\w-])", re.IGNORECASE)
    code = r"`[^`]*`" if pattern not in ("`Difference", "s_k") else r"(?!)"
    for path in course():
        for cell in map(said, markdown(path)):
            without = re.sub(r"\]\([^)]*\)", "]", cell)  # a link's address says nothing
            without = re.sub(code, "", without)
            if word.search(without):
                return path.name, cell
    return None


def links(cell: str) -> set[str]:
    return set(re.findall(r"\]\(\.\./docs/glossary\.md#([\w-]+)\)", cell))


def test_each_term_is_explained_in_a_sentence_or_two() -> None:
    assert len(TERMS) > 60
    for heading, words in TERMS.items():
        text = " ".join(words.split())
        assert text.endswith("."), heading
        assert 30 < len(text) < 420, heading


@pytest.mark.parametrize("pattern", FIRST_USE)
def test_the_first_use_of_a_word_is_linked(pattern: str) -> None:
    wanted = FIRST_USE[pattern]
    assert wanted in set(map(anchor, TERMS))
    found = first_cell(pattern)
    assert found is not None, f"no notebook says {pattern!r}"
    name, cell = found
    if not any(map(links, markdown(ROOT / "notebooks" / name))):
        pytest.skip(f"{name} has no link to the glossary at all")
    assert wanted in links(cell), f"{name} says {pattern!r} first, without a link:\n{cell[:300]}"


def test_the_finder_finds() -> None:
    text = "# A gate\n`gate` [gate](../docs/glossary.md#gate)\n```\ngate\n```\n| gate |\n"
    assert said(text).split() == ["`gate`", "[gate](../docs/glossary.md#gate)"]
    assert links(text) == {"gate"}
    assert links("[gate](../docs/federated.md#gate)") == set()
    assert said("## References\n- codec") == ""


def test_links_into_the_glossary_lead_to_a_term() -> None:
    for path in course():
        for cell in markdown(path):
            assert links(cell) <= set(map(anchor, TERMS)), path.name
