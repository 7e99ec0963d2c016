"""The language lab of notebook 11: Start, move each slider, see bytes and text change, Stop."""

from pathlib import Path
from typing import Any

import pytest
from labserver import Server
from shownlab import Shown, show_lab

pytestmark = pytest.mark.browser
CELLS = (
    "import fltoolkit as flt",
    "text = load_text(TEXT)",
    "def n_gram(",
    "grams = {",
    "lab = LanguageLab(",
)
PER_STEP = """[
    (b["nbytes"] - a["nbytes"]) / (b["step"] - a["step"])
    for a, b in zip(lab.current.history, lab.current.history[1:])
]""".replace("\n", " ")
TEXTS = "lab.current.history.having('text').column('text')"


@pytest.fixture
def lab(folder: Path, server: Server, page: Any) -> Shown:
    name, longer = "11_language_models.ipynb", "lab.num_steps = 100_000"
    return show_lab(folder, server, page, name, cells=CELLS, longer=longer, clock="step")


def test_each_slider_changes_what_the_next_rounds_cost_and_the_text_changes(lab: Shown) -> None:
    lab.notebook.screenshot("language_lab_ready")
    lab.start(run=2)
    first = lab.ask(TEXTS)[0]
    moves = [
        ("messages", "End", 1, "bits", 32, "messages 32 bits"),
        ("messages", "ArrowLeft", 2, "bits", 4, "messages 4 bits"),
        ("top-k", "ArrowLeft", 1, "top_k", 0.3, "top-k 30 %"),
        ("inner steps", "ArrowRight", 1, "inner_steps", 20, "inner steps 20"),
        ("outer momentum", "ArrowRight", 2, "momentum", 0.6, "outer momentum 0.6"),
    ]
    costs = {}
    for words, key, times, setting, value, mark in moves:
        lab.slide(words, key, times)
        lab.until_moved(setting, value, mark)
        costs[mark] = lab.ask(PER_STEP)[-1]
        for theme in ("Dark", "Light") if setting == "momentum" else ():
            lab.notebook.theme(theme)
            lab.notebook.screenshot(f"language_lab_running_{theme.lower()}")
    full, four, sparse, longer, same = costs.values()
    assert full > 5 * four > 7 * sparse > 1.5 * 7 * longer, costs
    assert same == pytest.approx(longer, rel=0.3), "momentum is no message"
    assert len(set(lab.ask(TEXTS))) > 4
    assert lab.ask(TEXTS)[-1] != first

    lab.stop(run=2)
    assert repr(lab.ask(TEXTS)[-1]) in lab.words()
    assert "test loss" in lab.words()
    for theme in ("Dark", "Light"):
        lab.notebook.theme(theme)
        lab.notebook.screenshot(f"language_lab_stopped_{theme.lower()}")
    lab.press("Script")
    lab.area.get_by_text("from fltoolkit_research.federated import AllGather").wait_for()
    assert 'training.change("momentum", 0.6)' in lab.notebook.ask("print(lab.script())")
