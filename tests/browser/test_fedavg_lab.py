"""Notebook 04's lab in a real browser: Start, move a slider, see the bytes change, Stop."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from labserver import Server, open_notebook

pytestmark = pytest.mark.browser
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "04_fedavg.ipynb"


def wait_for(page: Any, what: Any, seconds: float = 60) -> None:
    for _ in range(int(20 * seconds)):
        if what():
            return
        page.wait_for_timeout(50)
    pytest.fail(f"not within {seconds} s")


def test_notebook_04_a_slider_changes_what_a_round_costs(
    folder: Path, server: Server, page: Any
) -> None:
    shutil.copy(NOTEBOOK, folder)
    notebook = open_notebook(page, server, NOTEBOOK.name)
    sources = [cell["source"] for cell in notebook.cells()]
    imports = next(n for n, source in enumerate(sources) if "import fltoolkit as flt" in source)
    lab = next(n for n, source in enumerate(sources) if "lab = FedAvgLab(" in source)
    notebook.run_cell(imports)
    notebook.run_cell(lab)  # two runs of twelve rounds, then the panel
    area = notebook.show(lab)
    area.get_by_role("button", name="Start").wait_for(timeout=60_000)
    notebook.ask("lab.num_rounds = 400")

    def words() -> str:
        return notebook.outputs(lab)[-1]["data"]["text/plain"]

    def rounds() -> int:
        return int(notebook.ask("print(len(lab.current.history))"))

    area.get_by_role("button", name="Start").click()
    wait_for(page, lambda: "run 3 running, round " in words())
    area.locator("svg[role=img]").wait_for()
    wait_for(page, lambda: rounds() >= 3)

    slider = area.get_by_role("slider").first
    slider.focus()
    for _ in range(3):  # 32, 8, 4, 2 bits
        page.keyboard.press("ArrowLeft")
    wait_for(page, lambda: notebook.ask("print(lab.current.now()['bits_up'])") == "2")
    moved = rounds()
    wait_for(page, lambda: rounds() >= moved + 3)
    wait_for(page, lambda: "update up 2 bits" in notebook.outputs(lab)[-1]["data"]["text/html"])
    notebook.screenshot("fedavg_lab_running")
    area.get_by_role("button", name="Stop").click()
    wait_for(page, lambda: "run 3 stopped" in words())
    notebook.screenshot("fedavg_lab_stopped")

    totals = "[0] + [r['nbytes_up'] for r in lab.current.history]"
    sent = [int(n) for n in notebook.ask(f"print(*{totals})").split()]
    per_round = [b - a for a, b in pairwise(sent)]
    assert per_round[-1] < per_round[0] / 16, per_round
    assert "up: updates" in words()
    assert "failures" not in words()
