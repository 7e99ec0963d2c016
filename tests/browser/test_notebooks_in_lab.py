import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from labserver import Notebook, Server, open_notebook, saved_outputs, wait_for, write_notebook

from fltoolkit_course.cli import copy_notebooks

pytestmark = pytest.mark.browser
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

WATCH = """
import pathlib, time
from fltoolkit_course.plots import watch

seen = pathlib.Path("seen")  # until then each step takes its time, however busy the machine is

def training(steps):
    for step in range(1, steps + 1):
        time.sleep(0.01 if step < 50 or seen.exists() else 0.5)
        record = {"step": step, "loss": 2.3 * 0.99**step, "nbytes": 327_708 * step}
        record |= {"nbytes_up": 163_854 * step, "nbytes_down": 163_854 * step}
        yield record | ({"accuracy": 1 - 0.9 * 0.98**step} if step % 40 == 0 else {})

for record in watch(training(500), 500, y=("loss", "accuracy"), title="SplitNN on digits"):
    pass
"""
STOPPED = """
for record in watch(training(500), 500, title="Stopped early"):
    if record["step"] == 60:
        break
"""
PANEL = """
from fltoolkit_course.plots.below_controls import BelowControls, slider
from fltoolkit_course.plots.drawing import Graphic

bits = slider("bits per value", [*range(1, 9)], 4)
picture = BelowControls(lambda: Graphic(300, 60, f"{bits.value} bits are sent", []), bits)
picture.rests_after = 3
bits.observe(lambda change: picture.moved(), "value")
picture.show()
"""


@pytest.fixture
def notebook(folder: Path, server: Server, page: Any) -> Notebook:
    write_notebook(folder / "probe.ipynb", WATCH, STOPPED, PANEL)
    return open_notebook(page, server, "probe.ipynb")


def test_curves_move_while_the_cell_runs_and_a_png_stays(
    notebook: Notebook, page: Any, folder: Path
) -> None:
    (folder / "seen").unlink(missing_ok=True)
    notebook.run_all()
    live = notebook.show(0).locator("svg[role=img]").first
    live.wait_for()
    seen = set()
    while len(seen) < 3:
        (output,) = notebook.outputs(0)
        assert "image/png" not in output["data"], f"the display hardly moved: {seen}"
        seen.add(output["data"]["text/plain"])
        page.wait_for_timeout(20)
    notebook.screenshot("watch_running")
    (folder / "seen").touch()
    assert all(words.startswith("SplitNN on digits: running") for words in seen)

    wait_for(page, lambda: "stopped: 60" in notebook.words())
    (finished,), (stopped,), _ = (notebook.outputs(cell) for cell in range(3))
    assert set(finished["data"]) == set(stopped["data"]) == {"image/png", "text/plain"}
    assert "finished: 500 of 500" in finished["data"]["text/plain"]
    assert "up 81.9 MB; down 81.9 MB" in finished["data"]["text/plain"]
    assert "stopped: 60 of 500" in stopped["data"]["text/plain"]
    notebook.show(0).locator("img").wait_for()
    notebook.screenshot("watch_finished")

    notebook.save()
    saved = {"image/png", "text/plain"}
    wait_for(page, lambda: saved_outputs(folder / "probe.ipynb") == [saved])


def test_sliders_change_the_answer_and_the_picture_also_in_a_page_loaded_anew(
    notebook: Notebook, server: Server, page: Any
) -> None:
    notebook.run_cell(2)
    area = notebook.show(2)
    area.locator("img").wait_for()
    notebook.screenshot("panel_before")

    bits, asked = page.get_by_role("slider").first, "print(bits.value)"
    bits.focus()
    for _ in range(2):  # 4, 5, 6
        page.keyboard.press("ArrowRight")
    wait_for(page, lambda: notebook.ask(asked) == "6")
    sentence = "6 bits are sent"
    wait_for(page, lambda: set(notebook.outputs(2)[2]["data"]) == {"image/png", "text/plain"})
    wait_for(page, lambda: notebook.outputs(2)[2]["data"]["text/plain"] == sentence)
    area.locator("img[src^='data:image/png']").wait_for()  # the slider rests: PNG again
    notebook.screenshot("panel_after")

    notebook.save()
    again = open_notebook(page, server, "probe.ipynb", anew=True)  # its kernel goes on
    area = again.show(2)
    bits = page.get_by_role("slider").first
    for key, now in (("ArrowRight", "7"), ("Home", "1")):  # the picture follows them
        bits.focus()
        page.keyboard.press(key)
        wait_for(page, lambda now=now: again.ask(asked) == now)
        sentence = f"{now} bits are sent"
        area.get_by_title(sentence).or_(area.get_by_alt_text(sentence)).first.wait_for()
    area.get_by_alt_text(sentence).wait_for()  # at rest
    shown = area.locator("img, svg[role=img]").filter(visible=True)
    assert shown.count() == 1, "the picture of before is hidden"
    again.screenshot("panel_loaded_anew")


LAB = """
import torch
from fltoolkit_course.labs import ThresholdLab
torch.set_num_threads(1)
lab = ThresholdLab(num_epochs=30_000, threshold=0.3)
lab
"""


@pytest.fixture
def lab(folder: Path, server: Server, page: Any) -> Notebook:
    write_notebook(folder / "lab.ipynb", LAB)
    return open_notebook(page, server, "lab.ipynb")


def picture(lab: Notebook) -> dict[str, Any]:
    """What the lab's plain display holds now."""
    return lab.outputs(0)[-1]["data"]


def test_steering_a_running_training(lab: Notebook, page: Any, folder: Path) -> None:
    lab.run_cell(0)
    area = lab.show(0)
    area.locator("img").wait_for()
    lab.screenshot("threshold_lab_ready")

    def button(name: str) -> Any:
        return area.get_by_role("button", name=name)

    button("Start").click()
    wait_for(page, lambda: "text/html" in picture(lab))
    wait_for(page, lambda: "state C" in picture(lab)["text/plain"])
    lab.screenshot("threshold_lab_running")

    # other cells run meanwhile, and what they ask for acts
    assert lab.ask("print(lab.current.status)") == "running"
    slider = area.get_by_role("slider").first
    slider.focus()
    for _ in range(3):  # 0.3, 0.2, 0.15, 0.1
        page.keyboard.press("ArrowLeft")
    wait_for(page, lambda: lab.ask("print(lab.current.now()['threshold'])") == "0.1")
    area.get_by_text("threshold 0.1,").first.wait_for()
    before = int(lab.ask("print(lab.current.history[-1]['nbytes'])"))
    slider.focus()
    page.keyboard.press("Home")  # a threshold of 0: state A for ever
    wait_for(page, lambda: "state A" in picture(lab)["text/plain"])
    wait_for(page, lambda: "threshold 0<" in picture(lab).get("text/html", ""))
    wait_for(
        page, lambda: int(lab.ask("print(lab.current.history[-1]['nbytes'])")) > before + 10**6
    )
    lab.screenshot("threshold_lab_moved")

    button("Pause").click()
    wait_for(page, lambda: lab.ask("print(lab.current.status)") == "paused")
    wait_for(page, lambda: "image/png" in picture(lab))
    paused = int(lab.ask("print(len(lab.current.history))"))
    button("Step").click()
    wait_for(page, lambda: lab.ask("print(len(lab.current.history))") == str(paused + 1))
    button("Resume").click()
    wait_for(page, lambda: lab.ask("print(lab.current.status)") == "running")
    button("Stop").click()
    wait_for(page, lambda: "run 1 stopped" in picture(lab)["text/plain"])
    assert set(picture(lab)) == {"image/png", "text/plain"}
    lab.screenshot("threshold_lab_stopped")

    # the next run starts from the settings as they stand, the first stays as a ghost
    area.get_by_label("cut layer").select_option("2")
    button("Start").click()
    wait_for(page, lambda: "run 2" in picture(lab)["text/plain"])
    wait_for(page, lambda: re.search(r"9[6-9]\.\d %", picture(lab)["text/plain"]))
    button("Script").click()
    area.get_by_text("class ThresholdTraining").wait_for()
    assert "cut=2," in lab.ask("print(lab.script())")
    button("Script").click()
    button("Stop").click()
    wait_for(page, lambda: "run 2 stopped" in picture(lab)["text/plain"])
    wait_for(page, lambda: "image/png" in picture(lab))
    lab.screenshot("threshold_lab_two_runs")

    lab.save()
    wait_for(page, lambda: "image/png" in saved_outputs(folder / "lab.ipynb")[-1])
    saved = nbformat.read(folder / "lab.ipynb", 4)
    assert "widgets" not in saved.metadata


def test_without_its_kernel_a_lab_says_how_to_get_the_controls(
    lab: Notebook, server: Server, page: Any
) -> None:
    lab.run_cell(0)
    area = lab.show(0)
    button = area.get_by_role("button", name="Start")
    sentence = area.get_by_text("Run this cell to get the controls")
    button.click()
    area.locator("svg[role=img]").wait_for()
    assert sentence.count() == 1
    assert sentence.is_hidden()
    lab.save()
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    for width in (1280, 900):
        page.set_viewport_size({"width": width, "height": 800})
        sentence.wait_for(state="visible")
        assert button.is_hidden()
        lab.screenshot(f"threshold_lab_without_kernel_{width}")

    # saved while it ran, and not run again
    again = open_notebook(page, server, "lab.ipynb", anew=True)
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


COURSE = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
STARTS_AT_ONCE = "00_start_here.ipynb"
LIVE = ".jp-OutputArea svg[role=img]"
BAR = ".jp-OutputArea-output pre:text-matches('[0-9] done')"
MOVING = f"{LIVE}, .jp-OutputArea [role=slider], {BAR}"
WITH_CONTROLS = re.compile(r"^(?:\w+ = )?(?:Playground|\w+Panel|\w+Lab)\(", re.MULTILINE)


def controls(name: str) -> list[str]:
    """The first line of each cell of a notebook that shows sliders or buttons."""
    cells = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [line[0] for line in map(WITH_CONTROLS.search, code) if line]


def course() -> Iterator[Any]:
    """All notebooks; with each change one for each kind of control, and all of them each night."""
    seen = {"ThresholdLab("}  # above
    for name in COURSE:
        if kinds := {line.split()[-1] for line in controls(name)} - seen:
            yield pytest.param(name, name == STARTS_AT_ONCE)
        if not kinds or name != STARTS_AT_ONCE:
            yield pytest.param(name, True, marks=pytest.mark.nightly)
        seen |= kinds


@pytest.mark.parametrize(("name", "from_the_top"), [*course()])
def test_each_notebook_moves_soon_and_each_of_its_controls_does_something(
    folder: Path, server: Server, page: Any, name: str, from_the_top: bool
) -> None:
    copy_notebooks(folder / "course")  # as a reader gets them, without outputs
    opened = open_notebook(page, server, f"course/{name}")
    if from_the_top:
        it_moves_soon(opened, name)
    for line in controls(name):
        if from_the_top:
            opened.restart()  # not stopped: between two cells an interrupt is lost
        cells = enumerate(opened.cells())
        cell = next(n for n, c in cells if c["cell_type"] == "code" and line in c["source"])
        opened.run_with_needed(cell)
        use_each_control(opened, cell, Path(name).stem, from_the_top)


def it_moves_soon(opened: Notebook, name: str) -> None:
    """It is run from the top, and watched until something moves: a curve, or a bar of progress.

    Seconds are counted from pressing Run All. Only notebook 00 promises a time, 15 seconds. What
    is asserted are those in which its kernel computed: the others depend on who else computes.
    """
    page, kernel = opened.page, psutil.Process(int(opened.ask("import os; print(os.getpid())")))
    start, before = time.monotonic(), sum(kernel.cpu_times()[:2])
    opened.run_all()
    page.locator(MOVING).first.wait_for(state="attached")
    if page.locator(LIVE).count():  # a picture: it must change to count as moving
        first = opened.words()
        wait_for(page, lambda: opened.words() != first)
    seconds, computed = time.monotonic() - start, sum(kernel.cpu_times()[:2]) - before
    live = [n for n, cell in enumerate(opened.cells()) if cell.get("outputs")]
    opened.show(live[-1])
    opened.screenshot(f"first_{Path(name).stem}")
    print(f"\n{name}: first moving thing after {seconds:.1f} s, {computed:.1f} s of its kernel's")
    if name == STARTS_AT_ONCE:
        assert min(seconds, computed) < 12  # and 3 for the imports of its first cell


def use_each_control(opened: Notebook, cell: int, name: str, themed: bool) -> None:
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
    if themed:  # for eyes only
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


def test_a_guess_shows_the_value_and_is_kept(folder: Path, server: Server, page: Any) -> None:
    """In notebook 01: no guess shows nothing; a guess does, and stands on the card."""
    copy_notebooks(folder / "guesses")
    opened = open_notebook(page, server, "guesses/01_vanilla_splitnn.ipynb")
    cells = opened.cells()
    asks = next(n for n, c in enumerate(cells) if "How many bytes did Alice" in c["source"])
    for number in range(asks + 1):
        if cells[number]["cell_type"] == "code":
            opened.run_cell(number)
    (unguessed,) = opened.outputs(asks)
    assert "No guess yet." in unguessed["text"]
    assert "163,852" not in unguessed["text"]
    opened.show(asks)
    opened.screenshot("no_guess_yet")
    page.evaluate(
        """cell => { const model = jupyterapp.shell.currentWidget.content.widgets[cell].model;
                     const source = model.sharedModel.getSource();
                     model.sharedModel.setSource(source.replace('None', '50_000')); }""",
        asks,
    )
    opened.run_cell(asks)
    (guessed,) = opened.outputs(asks)
    assert "measured:   163,852 B\n  Your guess is 3.3 times too small." in guessed["text"]
    card = next(n for n, c in enumerate(cells) if c["source"] == "card()")
    opened.run_cell(card)
    opened.show(card).locator("table").wait_for()
    opened.screenshot("card")
    assert "1 of 5 guesses made, 0 of 3 checks passed." in opened.words()
    assert "50,000 B" in (folder / "guesses" / "course_progress.json").read_text()
