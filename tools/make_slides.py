"""Turn notebooks with their saved outputs into slides that a browser shows.

    python tools/make_slides.py build/slides                              # the whole course
    python tools/make_slides.py build/slides notebooks/01_vanilla_splitnn.ipynb

A heading begins a slide; what follows it stands below (arrow down), so that nothing is cut off.
Folded solutions, the install cell and the references are left out. Nothing is run: nbconvert writes
reveal.js slides from copies of the notebooks, which a browser shows with the help of a network.
"""

import argparse
import re
import tempfile
from pathlib import Path

import nbformat
from nbconvert.exporters import SlidesExporter

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
MOST = 24  # lines of text and code on one slide


def kinds(notebook: nbformat.NotebookNode) -> list[str]:
    """For each cell: slide (a new one), subslide (below it), - (on the same one), or skip."""
    found, room = [], 0
    for cell in notebook.cells:
        lines = sum(1 + len(line) // 100 for line in cell.source.splitlines())
        pictures = [out for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
        printed = sum(out.get("text", "").count("\n") for out in cell.get("outputs", []))
        size = lines + printed + 12 * len(pictures)
        if "google.colab" in cell.source or re.match(r"#+ References", cell.source):
            found.append("skip")
        elif cell.cell_type == "markdown" and re.match(r"#{1,2} ", cell.source):
            found.append("slide")
            room = MOST - size
        elif size > room:
            found.append("subslide")
            room = MOST - size
        else:
            found.append("-")
            room -= size
    return found


def without_folded(text: str) -> str:
    """A Markdown cell without its folded solutions and badges."""
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    return re.sub(r"^\[!\[.*$", "", text, flags=re.MULTILINE).strip()


def cut_at_headings(notebook: nbformat.NotebookNode) -> None:
    """A heading within a Markdown cell begins a cell of its own; empty cells go."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            cells.append(cell)
            continue
        for part in re.split(r"^(?=#{1,3} )", without_folded(cell.source), flags=re.MULTILINE):
            if part.strip():
                cells.append(nbformat.v4.new_markdown_cell(part.strip()))
    notebook.cells = cells


def make(path: Path, folder: Path) -> Path:
    """Write ``folder/NAME.slides.html`` for one notebook; returns its path."""
    notebook = nbformat.read(path, as_version=4)
    cut_at_headings(notebook)
    for cell, kind in zip(notebook.cells, kinds(notebook), strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    notebook.metadata["title"] = path.stem
    exporter = SlidesExporter(reveal_scroll=True, reveal_number="c/t")
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / path.name
        nbformat.write(notebook, copy)
        html, _ = exporter.from_filename(str(copy))
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / f"{path.stem}.slides.html"
    out.write_text(html, encoding="utf-8")
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("notebooks", nargs="*", type=Path, help="by default all of the course")
    arguments = parser.parse_args()
    for each in arguments.notebooks or sorted(NOTEBOOKS.glob("*.ipynb")):
        written = make(each, arguments.folder)
        print(f"{written}: {written.stat().st_size / 1000:,.0f} kB")
