"""All notebooks in a browser, as impatient readers use them: pictures, and what went wrong.

    python tools/sweep_notebooks.py                       # all notebooks and passes: an hour or two
    python tools/sweep_notebooks.py 05 --passes plain     # one notebook, one pass
    python tools/sweep_notebooks.py 03 --load 4           # beside four processes that compute

Each pass has a folder, and so a kernel and a progress, of its own. The list is ``sweep.md`` beside
the pictures in test-artifacts/: look at both. A NameError of cells that run backwards, before all
have run, is Python's own answer and is not listed.
Not here: tests of single labs and panels (tests/browser).
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fltoolkit_course.cli import copy_notebooks, shipped

sys.path.append(str(Path(__file__).parents[1] / "tests" / "browser"))
from labserver import _READY, ARTIFACTS, Notebook, lab, open_notebook, page

PASSES = ("plain", "nonsense", "guessed", "backwards", "interrupted")
MOST_PICTURES = 12  # of one pass and look: of the cells with the tallest outputs
LOOKS = (("Light", 1280), ("Dark", 900))  # each cell in both; together both colours and widths
WAIT, REST = 900, 60  # seconds for a run of all cells, and of them with a kernel that does nothing
_SET = """([cell, source]) => jupyterapp.shell.currentWidget.context.model.cells.get(cell)
                                 .sharedModel.setSource(source)"""
_WIDE = """() => [...document.querySelectorAll('.jp-OutputArea-output')].filter(
                   each => each.scrollWidth > each.clientWidth + 4).length"""


def code_cells(notebook: Notebook) -> dict[int, str]:
    """The code cells and their sources."""
    cells = enumerate(notebook.cells())
    return {k: "".join(c["source"]) for k, c in cells if c["cell_type"] == "code"}


def write(notebook: Notebook, guess: str) -> None:
    """Write the same into every guess and every answer."""
    for cell, source in code_cells(notebook).items():
        for name in ("my_guess", "my_answer"):
            source = source.replace(f"{name} = None", f"{name} = {guess}")
        notebook.page.evaluate(_SET, [cell, source])


def have_run(notebook: Notebook) -> int:
    """How many cells have run to their end."""
    return sum(bool(cell.get("execution_count")) for cell in notebook.cells())


def wait(notebook: Notebook, cells: int) -> None:
    """Until so many cells have run, or one has failed and the kernel is idle."""
    begun = idle = time.monotonic()
    while time.monotonic() < min(begun + WAIT, idle + REST):
        notebook.page.wait_for_timeout(300)
        if not notebook._idle():
            idle = time.monotonic()
        elif have_run(notebook) >= cells or errors(notebook):
            return
    run = have_run(notebook)
    raise TimeoutError(f"{run} of {cells} cells had run after {time.monotonic() - begun:.0f} s")


def errors(notebook: Notebook) -> list[str]:
    """The errors that stand below cells."""
    return [
        f"cell {k}: {output['ename']}: {output['evalue'][:200]}"
        for k, cell in enumerate(notebook.cells())
        for output in cell.get("outputs", ())
        if output["output_type"] == "error"
    ]


def run_all(notebook: Notebook) -> None:
    """All cells once; after an error the rest, cell by cell."""
    notebook.run_all()
    wait(notebook, sum(bool(source.strip()) for source in code_cells(notebook).values()))


def run_backwards(notebook: Notebook) -> None:
    """All cells, the last one first."""
    for cell in reversed(code_cells(notebook)):
        notebook.run_cell(cell)


def move_sliders(notebook: Notebook, name: str) -> int:
    """Start each lab, and move each slider to both ends while it trains; a picture of each cell."""
    moved = 0
    for cell in code_cells(notebook):
        area = notebook.show(cell)
        for start in area.get_by_role("button", name="Start").all():
            if start.is_enabled():
                start.click()
        for handle in area.get_by_role("slider").all():
            if handle.is_visible() and handle.is_enabled():
                for key in ("End", "Home"):
                    handle.press(key)
                moved += 1
        if area.get_by_role("slider").count():
            notebook.page.wait_for_timeout(3000)
            notebook.screenshot(f"sweep/{name}_{cell:02d}")
    return moved


def pictures(notebook: Notebook, name: str) -> None:
    """The cells with the tallest outputs, in both looks."""
    heights = {}
    for cell in code_cells(notebook):
        box = notebook.show(cell).bounding_box()
        heights[cell] = box["height"] if box else 0
    tall = sorted(sorted(heights, key=lambda cell: -heights[cell])[:MOST_PICTURES])
    for theme, width in LOOKS:
        notebook.theme(theme)
        notebook.page.set_viewport_size({"width": width, "height": 1000})
        for cell in (cell for cell in tall if heights[cell] > 60):
            notebook.show(cell)
            notebook.page.wait_for_timeout(300)
            notebook.screenshot(f"sweep/{name}_{cell:02d}_{theme.lower()}_{width}")
    notebook.theme("Light")
    notebook.page.set_viewport_size({"width": 1280, "height": 1000})


def sweep(notebook: Notebook, kind: str, name: str) -> Iterator[str]:
    """One pass over an open notebook: what went wrong, line by line."""
    if kind in ("nonsense", "guessed"):
        write(notebook, "'banana'" if kind == "nonsense" else "50")
    if kind == "backwards":
        run_backwards(notebook)
        yield from (each for each in errors(notebook) if "NameError" not in each)
        run_all(notebook)
        run_backwards(notebook)
        yield from (f"when all had run: {each}" for each in errors(notebook))
        return
    if kind == "interrupted":
        notebook.run_all()
        while have_run(notebook) < 4:  # a module that was stopped while it loads needs a restart
            notebook.page.wait_for_timeout(100)
        notebook.page.wait_for_timeout(5000)
        notebook.page.evaluate("() => jupyterapp.commands.execute('notebook:interrupt-kernel')")
        notebook.page.wait_for_timeout(3000)  # the interrupt may come late on a busy machine
    run_all(notebook)
    yield from errors(notebook)
    if kind == "plain":
        pictures(notebook, name)
        moved = move_sliders(notebook, f"{name}_moved")
        run_all(notebook)  # a second time, with the sliders where they are
        yield from (f"the second time, {moved} sliders moved: {each}" for each in errors(notebook))
        notebook.save()
        notebook.page.wait_for_timeout(3000)
        notebook.page.reload()
        notebook.page.wait_for_function("() => !!window.jupyterapp")
        notebook.page.evaluate(_READY)
        if (
            again := move_sliders(notebook, f"{name}_reloaded")
        ) < moved:  # the kernel goes on, so they act
            yield f"{again} of {moved} sliders after a reload"
        if wide := notebook.page.evaluate(_WIDE):
            yield f"{wide} outputs are wider than the page"


def one(server: Any, folder: Path, file: str, kind: str) -> list[str]:
    """A pass over a file, with errors of scripts and of the sweep itself among what went wrong."""
    copy_notebooks(folder / kind)
    name = f"{file.removesuffix('.ipynb')}_{kind}"
    try:
        with page() as tab:
            return list(sweep(open_notebook(tab, server, f"{kind}/{file}"), kind, name))
    except Exception as error:  # a pass that fails is a line of the list
        return [f"{type(error).__name__}: {str(error)[:300]}"]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("numbers", nargs="*", help="such as 05; default: all notebooks")
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES)
    parser.add_argument("--load", type=int, default=0, help="processes that compute beside it")
    args = parser.parse_args()
    (ARTIFACTS / "sweep").mkdir(parents=True, exist_ok=True)
    lines = ["# What went wrong"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = sorted(file.name for file in shipped().glob("*.ipynb"))
        chosen = [f for f in files if not args.numbers or f.split("_")[0] in args.numbers]
        with lab(folder) as server, contextlib.ExitStack() as beside:
            for _ in range(args.load):
                busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                beside.callback(busy.kill)
            for file in chosen:
                for kind in args.passes:
                    began = time.monotonic()
                    found = one(server, folder, file, kind)
                    lines += [f"\n{file}, {kind}: {time.monotonic() - began:.0f} s"]
                    lines += [f"- {each}" for each in found] or ["- nothing"]
                    print("\n".join(lines[-1 - len(found or [0]) :]), flush=True)
                    (ARTIFACTS / "sweep" / "sweep.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
