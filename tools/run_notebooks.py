"""Run notebooks from top to bottom in a fresh kernel and save them with their outputs.

    python tools/run_notebooks.py                 # all of notebooks/, assignments too
    python tools/run_notebooks.py notebooks/01_vanilla_splitnn.ipynb
    python tools/run_notebooks.py --time          # the same, and save nothing

What is saved is what GitHub shows: no widget state (GitHub calls such notebooks invalid), no
timings in the metadata, the same cell ids each time. An error stops before anything is written.
It is the saved edition (FLTOOLKIT_EDITION): measured values are shown although nobody has guessed,
and no progress is kept.

What a notebook adds to the bill of the course goes into fltoolkit_course/bill.json.

The seconds that it prints should stay below 60 on two quiet cores. It prints the seconds of the
clock, and those that the kernel and its processes computed, which say more on a busy machine. It
names cells that computed longer than five seconds.
"""

import argparse
import json
import os
import time
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
BILL = NOTEBOOKS.parent / "fltoolkit_course" / "bill.json"
CONTROLS = "application/vnd.jupyter.widget-view+json"
LONG = 5.0  # seconds of a cell that is named


def without_controls(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs of a cell without controls, which need a kernel; a sentence in their place.

    A lab brings its own sentence (labs/panel.py).
    """
    said = any("Run this cell to get the controls" in str(output.get("data")) for output in outputs)
    kept = []
    for output in outputs:
        if CONTROLS in output.get("data", {}):
            if said:
                continue
            output.data = {"text/plain": "Run this cell to get the controls."}
        kept.append(output)
    return kept


class Computing:
    """Seconds that the kernel computed for each cell, which a busy machine hardly changes."""

    def __init__(self, client: NotebookClient):
        self.client, self.seconds, self.before = client, dict[int, float](), 0.0
        client.on_cell_execute = self.begin
        client.on_cell_executed = self.end

    def now(self) -> float:
        kernel = psutil.Process(self.client.km.provisioner.pid)
        return sum(sum(p.cpu_times()[:2]) for p in (kernel, *kernel.children(recursive=True)))

    def begin(self, cell: nbformat.NotebookNode, cell_index: int) -> None:
        self.before = self.now()

    def end(self, cell: nbformat.NotebookNode, cell_index: int, **_: object) -> None:
        self.seconds[cell_index] = self.now() - self.before

    def slowest(self) -> list[str]:
        """The cells that computed longer than `LONG`."""
        return [f"[{number}] {s:.0f} s" for number, s in self.seconds.items() if s > LONG]


def keep_bill(notebook: nbformat.NotebookNode) -> None:
    """Write the notebook's lines of the bill, which its card has in its metadata, beside others."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    found = [
        out.metadata["fltoolkit_bill"]
        for out in outputs
        if "fltoolkit_bill" in out.get("metadata", {})
    ]
    if found:
        others = json.loads(BILL.read_text(encoding="utf-8")) if BILL.exists() else {}
        text = json.dumps({**others, **found[-1]}, indent=1, sort_keys=True, ensure_ascii=False)
        BILL.write_text(f"{text}\n", encoding="utf-8")


def run(path: Path, save: bool = True) -> None:
    start, before = time.perf_counter(), os.times()
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        coalesce_streams=True,  # so that what is saved does not depend on when lines were printed
    )
    computing = Computing(client)
    client.execute()
    seconds, after = time.perf_counter() - start, os.times()
    computed = sum(  # the kernel has ended, so its seconds belong to this process's children
        getattr(after, key) - getattr(before, key) for key in ("children_user", "children_system")
    )
    slow = computing.slowest()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        if path.parent.name != "assignments":  # there ids say which answer is which
            cell.id = f"cell-{number:02d}"
        if cell.cell_type == "code":
            cell.outputs = without_controls(cell.outputs)
        for key in ("execution", "jupyter"):
            cell.metadata.pop(key, None)
    nbformat.validate(notebook)
    if save:
        nbformat.write(notebook, path)
        keep_bill(notebook)
    print(
        f"{path.name}: {seconds:.0f} s, of which computing {computed:.0f} s, "
        f"{path.stat().st_size / 1000:.0f} kB",
        *([f"cells that compute over {LONG:.0f} s: {', '.join(slow)}"] if slow else []),
        sep="; ",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="by default all of them")
    parser.add_argument("--time", action="store_true", help="run and print, but save nothing")
    arguments = parser.parse_args()
    os.environ["FLTOOLKIT_EDITION"] = "saved"
    for path in arguments.notebooks or sorted(NOTEBOOKS.rglob("*.ipynb")):
        run(path, save=not arguments.time)
