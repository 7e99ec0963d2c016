import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from labserver import Notebook, Server, open_notebook, saved_outputs, wait_for, write_notebook

pytestmark = pytest.mark.browser

LAB = """
import torch
from fltoolkit_course.labs import ThresholdLab
torch.set_num_threads(1)
lab = ThresholdLab(num_epochs=30_000, threshold=0.3)
lab
"""


@pytest.fixture
def notebook(folder: Path, server: Server, page: Any) -> Notebook:
    write_notebook(folder / "lab.ipynb", LAB)
    return open_notebook(page, server, "lab.ipynb")


def picture(notebook: Notebook) -> dict[str, Any]:
    """What the lab's plain display holds now."""
    return notebook.outputs(0)[-1]["data"]


def test_steering_a_running_training(notebook: Notebook, page: Any, folder: Path) -> None:
    notebook.run_cell(0)
    area = notebook.show(0)
    area.locator("img").wait_for()
    notebook.screenshot("threshold_lab_ready")

    def button(name: str) -> Any:
        return area.get_by_role("button", name=name)

    button("Start").click()
    wait_for(page, lambda: "text/html" in picture(notebook))
    wait_for(page, lambda: "state C" in picture(notebook)["text/plain"])
    notebook.screenshot("threshold_lab_running")

    # other cells run meanwhile, and what they ask for acts
    assert notebook.ask("print(lab.current.status)") == "running"
    slider = area.get_by_role("slider").first
    slider.focus()
    for _ in range(3):  # 0.3, 0.2, 0.15, 0.1
        page.keyboard.press("ArrowLeft")
    wait_for(page, lambda: notebook.ask("print(lab.current.now()['threshold'])") == "0.1")
    area.get_by_text("threshold 0.1,").first.wait_for()
    before = int(notebook.ask("print(lab.current.history[-1]['nbytes'])"))
    slider.focus()
    page.keyboard.press("Home")  # a threshold of 0: state A for ever
    wait_for(page, lambda: "state A" in picture(notebook)["text/plain"])
    wait_for(page, lambda: "threshold 0<" in picture(notebook).get("text/html", ""))
    wait_for(
        page, lambda: int(notebook.ask("print(lab.current.history[-1]['nbytes'])")) > before + 10**6
    )
    notebook.screenshot("threshold_lab_moved")

    button("Pause").click()
    wait_for(page, lambda: notebook.ask("print(lab.current.status)") == "paused")
    wait_for(page, lambda: "image/png" in picture(notebook))
    paused = int(notebook.ask("print(len(lab.current.history))"))
    button("Step").click()
    wait_for(page, lambda: notebook.ask("print(len(lab.current.history))") == str(paused + 1))
    button("Resume").click()
    wait_for(page, lambda: notebook.ask("print(lab.current.status)") == "running")
    button("Stop").click()
    wait_for(page, lambda: "run 1 stopped" in picture(notebook)["text/plain"])
    assert set(picture(notebook)) == {"image/png", "text/plain"}
    notebook.screenshot("threshold_lab_stopped")

    # the next run starts from the settings as they stand, the first stays as a ghost
    area.get_by_label("cut layer").select_option("2")
    button("Start").click()
    wait_for(page, lambda: "run 2" in picture(notebook)["text/plain"])
    wait_for(page, lambda: re.search(r"9[6-9]\.\d %", picture(notebook)["text/plain"]))
    button("Script").click()
    area.get_by_text("class ThresholdTraining").wait_for()
    assert "cut=2," in notebook.ask("print(lab.script())")
    button("Script").click()
    button("Stop").click()
    wait_for(page, lambda: "run 2 stopped" in picture(notebook)["text/plain"])
    wait_for(page, lambda: "image/png" in picture(notebook))
    notebook.screenshot("threshold_lab_two_runs")

    notebook.save()
    wait_for(page, lambda: "image/png" in saved_outputs(folder / "lab.ipynb")[-1])
    saved = nbformat.read(folder / "lab.ipynb", 4)
    assert "widgets" not in saved.metadata


def test_without_its_kernel_a_lab_says_how_to_get_the_controls(
    notebook: Notebook, server: Server, page: Any
) -> None:
    notebook.run_cell(0)
    area = notebook.show(0)
    button = area.get_by_role("button", name="Start")
    sentence = area.get_by_text("Run this cell to get the controls")
    button.click()
    area.locator("svg[role=img]").wait_for()
    assert sentence.count() == 1
    assert sentence.is_hidden()
    notebook.save()
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    for width in (1280, 900):
        page.set_viewport_size({"width": width, "height": 800})
        sentence.wait_for(state="visible")
        assert button.is_hidden()
        notebook.screenshot(f"threshold_lab_without_kernel_{width}")

    again = open_notebook(page, server, "lab.ipynb")  # saved while it ran, and not run again
    area = again.show(0)
    for width in (900, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        area.get_by_text("Run this cell to get the controls").wait_for(state="visible")
        page.wait_for_timeout(500)
        assert area.get_by_text("model not found").is_hidden()
        again.screenshot(f"threshold_lab_saved_{width}")
    again.run_cell(0)
    area.get_by_role("button", name="Start").wait_for(state="visible")
    assert area.get_by_text("Run this cell to get the controls").is_hidden()
