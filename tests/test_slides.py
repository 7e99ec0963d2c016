"""tools/make_slides.py: a heading begins a slide, and solutions stay away."""

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
