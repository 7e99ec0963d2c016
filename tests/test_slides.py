"""tools/make_slides.py: a heading begins a slide, solutions stay away, nbconvert writes it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
nbformat = pytest.importorskip("nbformat")
sys.path.insert(0, str(ROOT / "tools"))
make_slides = pytest.importorskip("make_slides")


def notebook(*cells):
    make = {"m": nbformat.v4.new_markdown_cell, "c": nbformat.v4.new_code_cell}
    return nbformat.v4.new_notebook(cells=[make[kind](source) for kind, source in cells])


def test_a_heading_begins_a_slide_and_what_is_too_long_goes_below():
    made = notebook(
        ("m", "# One\nwords\n## Two\nmore"),
        ("c", "x = 1\n" * 30),
        ("c", "y"),
        ("m", "## References"),
    )
    made.cells[0].source += "\n<details><summary>Solution</summary>\n42\n</details>"
    make_slides.cut_at_headings(made)
    assert [cell.source.split("\n")[0] for cell in made.cells] == [
        *("# One", "## Two", "x = 1", "y", "## References")
    ]
    assert make_slides.kinds(made) == ["slide", "slide", "subslide", "subslide", "skip"]
    assert "42" not in "".join(cell.source for cell in made.cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["01_vanilla_splitnn", "08_what_leaks", "11_language_models"])
def test_notebooks_become_slides(name, tmp_path):
    path = make_slides.make(ROOT / "notebooks" / f"{name}.ipynb", tmp_path)
    html = path.read_text(encoding="utf-8")
    assert "reveal.js" in html
    headings = re.findall(
        r"^## (.+)$",
        make_slides.nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
        .cells[5]
        .source,
        re.MULTILINE,
    )
    assert html.count("<section") > 20
    assert "data:image/png;base64," in html
    assert "<summary>Solution</summary>" not in html
    assert all(heading.split("`")[0][:20] in html for heading in headings)
