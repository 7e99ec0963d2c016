"""The FedAvg lab of notebooks 04 to 06: Start, move a control, see the bytes change, Stop."""

import ast
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from labserver import Notebook, Server, open_notebook, wait_for

pytestmark = pytest.mark.browser
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

PER_ROUND = """
totals = [0] + [record["nbytes_{direction}"] for record in lab.current.history]
print([b - a for a, b in zip(totals, totals[1:])])
"""


class Shown(NamedTuple):
    """A notebook's lab on the screen, with the runs that its cell makes."""

    notebook: Notebook
    cell: int
    area: Any

    def press(self, name: str) -> None:
        self.area.get_by_role("button", name=name).click()

    def slide(self, words: str, key: str, times: int) -> None:
        """Press an arrow key ``times`` times on the slider that is called ``words``."""
        slider = self.area.locator(".widget-hslider").filter(has_text=words).get_by_role("slider")
        slider.focus()
        for _ in range(times):
            self.notebook.page.keyboard.press(key)

    def picture(self) -> dict[str, Any]:
        return self.notebook.outputs(self.cell)[-1]["data"]

    def words(self) -> str:
        return self.picture()["text/plain"]

    def ask(self, expression: str) -> Any:
        """The value of an expression in the kernel."""
        return ast.literal_eval(self.notebook.ask(f"print(repr({expression}))"))

    def rounds(self) -> int:
        return self.ask("len(lab.current.history)")

    def per_round(self, direction: str) -> list[int]:
        """The bytes of each round so far."""
        return ast.literal_eval(self.notebook.ask(PER_ROUND.format(direction=direction)))

    def until(self, what: Any) -> None:
        wait_for(self.notebook.page, what)

    def rounds_more(self, number: int) -> None:
        """Wait until so many rounds more are over."""
        before = self.rounds()
        self.until(lambda: self.rounds() >= before + number)

    def start(self, run: int) -> None:
        """Press Start and wait for the third round of this run."""
        self.press("Start")
        self.until(lambda: f"run {run} running, round " in self.words())
        self.area.locator("svg[role=img]").wait_for()
        self.until(lambda: self.rounds() >= 3)

    def until_moved(self, key: str, value: Any, mark: str) -> None:
        """Wait for three rounds with a moved setting, and for its mark in the picture."""
        self.until(lambda: self.ask(f"lab.current.now()[{key!r}]") == value)
        self.rounds_more(3)
        self.until(lambda: mark in self.picture()["text/html"])

    def stop(self, run: int) -> None:
        self.press("Stop")
        self.until(lambda: f"run {run} stopped" in self.words())
        assert set(self.picture()) == {"image/png", "text/plain"}
        assert "up: updates" in self.words()
        assert "failures" not in self.words()


def show_lab(folder: Path, server: Server, page: Any, name: str) -> Shown:
    """Open a notebook and run its imports and its lab, and nothing else."""
    shutil.copy(NOTEBOOKS / name, folder)
    notebook = open_notebook(page, server, name)
    sources = [cell["source"] for cell in notebook.cells()]
    imports = next(n for n, source in enumerate(sources) if "import fltoolkit as flt" in source)
    lab = next(n for n, source in enumerate(sources) if "lab = FedAvgLab(" in source)
    notebook.run_cell(imports)
    notebook.run_cell(lab)  # one run or two, then the panel
    area = notebook.show(lab)
    area.get_by_role("button", name="Start").wait_for(timeout=60_000)
    notebook.ask("lab.num_rounds = 1000")
    area.get_by_label("rounds per second").select_option("10")
    return Shown(notebook, lab, area)


def test_notebook_04_a_slider_changes_what_a_round_costs(
    folder: Path, server: Server, page: Any
) -> None:
    lab = show_lab(folder, server, page, "04_fedavg.ipynb")
    lab.start(run=3)
    lab.slide("interval", "ArrowRight", 2)  # 5, 10, 20 local steps
    lab.until_moved("local_steps", 20, "interval 20")
    lab.slide("update up", "ArrowLeft", 3)  # 32, 8, 4, 2 bits
    lab.until_moved("bits_up", 2, "update up 2 bits")
    lab.notebook.screenshot("fedavg_lab_running")
    lab.stop(run=3)
    lab.notebook.screenshot("fedavg_lab_stopped")
    up = lab.per_round("up")
    assert up[-1] < up[0] / 16, up


def test_notebook_05_each_direction_has_its_slider(folder: Path, server: Server, page: Any) -> None:
    lab = show_lab(folder, server, page, "05_quantization.ipynb")
    lab.start(run=2)
    lab.slide("model down", "ArrowLeft", 2)  # 8, 4, 2 bits
    lab.until_moved("bits_down", 2, "model down 2 bits")
    up, down = lab.per_round("up"), lab.per_round("down")
    assert down[-1] < down[0] / 2, down
    assert up[-1] > up[0] / 2, up  # as many bits as before

    lab.slide("update up", "ArrowRight", 1)  # 8, 32 bits
    lab.until_moved("bits_up", 32, "update up 32 bits")
    lab.notebook.screenshot("notebook_05_lab_running")
    lab.stop(run=2)
    lab.notebook.screenshot("notebook_05_lab_stopped")
    up, down = lab.per_round("up"), lab.per_round("down")
    assert up[-1] > 3 * up[0], up
    assert down[-1] < down[0] / 2, down
    assert lab.ask("lab.current.now()") == {"bits_down": 2, "bits_up": 32}


def test_notebook_06_top_k_acts_now_and_the_masked_mean_at_the_next_start(
    folder: Path, server: Server, page: Any
) -> None:
    lab = show_lab(folder, server, page, "06_top_k.ipynb")
    lab.start(run=3)
    lab.slide("top-k up", "ArrowRight", 2)  # 1, 3, 10 %
    lab.until_moved("top_k", 0.1, "10 %")
    lab.area.get_by_role("checkbox", name="error feedback up").click()
    lab.until_moved("error_feedback", False, "error feedback up off")
    lab.notebook.screenshot("notebook_06_lab_running")
    up, down = lab.per_round("up"), lab.per_round("down")
    assert up[-1] > 5 * up[0], up
    assert set(down) == {down[0]}, down

    lab.area.get_by_role("checkbox", name="masked mean").click()
    lab.until(lambda: lab.ask("lab.values['masked']"))
    lab.rounds_more(1)
    lab.stop(run=3)
    assert lab.ask("[run.settings['masked'] for run in lab.runs]") == 3 * [False]
    lab.start(run=4)
    lab.stop(run=4)
    lab.notebook.screenshot("notebook_06_lab_stopped")
    assert lab.ask("lab.current.settings") == {
        "top_k": 0.1,
        "error_feedback": False,
        "masked": True,
        "seed": 0,
    }
