"""A lab of a notebook on the screen: press its buttons, move its sliders, read what it shows."""

import ast
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from labserver import Notebook, Server, open_notebook, wait_for

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
    clock: str = "round"  # what its moves and its status count

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
        self.until(lambda: f"run {run} running, {self.clock} " in self.words())
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


def show_lab(
    folder: Path,
    server: Server,
    page: Any,
    name: str,
    *,
    cells: Sequence[str] = ("import fltoolkit as flt", "lab = FedAvgLab("),
    longer: str = "lab.num_rounds = 100_000",
    **more: str,
) -> Shown:
    """Open a notebook and run only its cells that contain ``cells``, of which the last is the lab.

    ``longer`` is code that makes the next run long enough to be steered.
    """
    shutil.copy(NOTEBOOKS / name, folder)
    notebook = open_notebook(page, server, name)
    sources = [cell["source"] for cell in notebook.cells()]
    for part in cells:
        lab = next(n for n, source in enumerate(sources) if part in source)
        notebook.run_cell(lab)  # of the lab: one run or two, then the panel
    area = notebook.show(lab)
    area.get_by_role("button", name="Start").wait_for()
    notebook.ask(longer)
    return Shown(notebook, lab, area, **more)


def use_each_control(opened: Notebook, cell: int, name: str) -> None:
    """Each button, slider, list and box is used once by mouse or keyboard, and something follows.

    What follows is another picture, other words, or another setting of the lab for its next run.
    """
    page, area = opened.page, opened.show(cell)
    is_lab = "Lab(" in opened.cells()[cell]["source"]
    settings = "print(lab.values, lab.steps_per_second)" if is_lab else "print()"

    def now() -> tuple[str, ...]:
        shown = area.locator("img, svg[role=img]").evaluate_all("all => all.map(e => e.outerHTML)")
        words = area.locator(".widget-html, .jp-OutputArea-output pre").all_inner_texts()
        return (*shown, *words, opened.ask(settings))

    def follows(what: str, act: Any) -> None:
        before = now()
        act()
        try:
            wait_for(page, lambda: now() != before)
        except pytest.fail.Exception:
            pytest.fail(f"{name}: nothing follows from {what}")

    def slide(slider: Any) -> None:
        slider.focus()
        at_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")
        page.keyboard.press("ArrowLeft" if at_end else "ArrowRight")

    def choose(box: Any) -> None:
        here = box.evaluate("box => box.selectedIndex")
        box.select_option(index=0 if here else 1)

    area.locator("img[src^='data:image/png']").first.wait_for()
    opened.themed(f"controls_{name}_{cell}")
    for kind, selector, act in (
        ("slider", "[role=slider]", slide),
        ("list", "select", choose),
        ("box", "input[type=checkbox]", lambda box: box.click()),
        ("button", "button", lambda button: button.click()),
    ):
        for number, control in enumerate(area.locator(selector).all()):
            if control.is_visible() and not control.evaluate("it => !!it.closest('[disabled]')"):
                follows(f"{kind} {number + 1}", lambda act=act, it=control: act(it))
                if kind == "button" and number == 0:
                    page.wait_for_timeout(500)
                    opened.screenshot(f"running_{name}_{cell}")
