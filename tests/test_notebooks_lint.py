"""Each notebook was run from top to bottom, and reads well on GitHub, Binder and Colab."""

import json
import re
from pathlib import Path

import pytest

from tools import glossary_titles

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
MAX_BYTES = 1_000_000


def text(source: str | list[str]) -> str:
    """A notebook's text, which may be saved as a list of lines."""
    return source if isinstance(source, str) else "".join(source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    found = []
    if not code or "google.colab" not in text(code[0]["source"]):
        found.append("the first code cell is not the install cell for Colab")
    if "widgets" in notebook["metadata"]:
        found.append("metadata.widgets: GitHub calls such a notebook invalid; remove it")
    if "kernelspec" not in notebook["metadata"]:
        found.append("no metadata.kernelspec: JupyterLab would ask for a kernel")
    if any("NBVAL_" in text(cell["source"]) for cell in code):
        found.append("a comment for nbval: readers need not see it, use the cell's tags")
    if any(re.search("--standalone(?!.*--local-addr)", text(c["source"])) for c in code):
        found.append("torchrun waits minutes where a machine's name has no address: --local-addr")
    counts = [cell["execution_count"] for cell in code if text(cell["source"]).strip()]
    if counts != list(range(1, len(counts) + 1)):
        found.append(f"execution counts {counts}: restart the kernel, run all, save")
    outputs = [(n, out) for n, cell in enumerate(code, 1) for out in cell["outputs"]]
    if not outputs:
        found.append("no saved outputs: run all and save")
    for number, output in outputs:
        data = output.get("data", {})
        plain = text(data.get("text/plain", "")).strip()
        if output["output_type"] == "error":
            found.append(f"code cell {number} saved an error: {output['ename']}")
        if "image/svg+xml" in data or "<svg" in text(data.get("text/html", "")):
            found.append(f"code cell {number} saved SVG, which GitHub breaks; use PNG")
        if "image/png" in data and (not plain or re.fullmatch(r"<.*>", plain, re.DOTALL)):
            found.append(f"code cell {number}: picture without its numbers as text: {plain!r}")
    assert found == []
    assert path.stat().st_size <= MAX_BYTES


def test_back_and_next_lead_through_the_course_in_the_order_of_the_map() -> None:
    def prose(path: Path) -> str:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return "\n".join(text(c["source"]) for c in cells if c["cell_type"] == "markdown")

    start = NOTEBOOKS[0]
    order = [start.name, *re.findall(r"^\| \[.*?\]\((\S+)\) \|", prose(start), re.MULTILINE)]
    assert sorted(order) == sorted(path.name for path in NOTEBOOKS)
    for here, name in enumerate(order):
        neighbours = order[max(here - 1, 0) : here] + order[here + 1 : here + 2]
        last = prose(start.with_name(name)).splitlines()[-1]
        assert re.findall(r"\]\((\S+)\)", last) == neighbours, name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_link_to_the_glossary_has_its_sentence_for_who_rests_on_it(path: Path) -> None:
    known = glossary_titles.sentences()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        prose = text(cell["source"])
        assert glossary_titles.titled(prose, known) == prose, "run tools/glossary_titles.py"
