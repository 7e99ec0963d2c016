"""The FedAvg lab of notebooks 04 and 06: Start, move a control, see the bytes change, Stop."""

from pathlib import Path
from typing import Any

import pytest
from labserver import Server
from shownlab import Shown, show_lab

pytestmark = pytest.mark.browser


def show_slow(folder: Path, server: Server, page: Any, name: str) -> Shown:
    """The lab of a notebook, with a run that takes its time."""
    lab = show_lab(folder, server, page, name)
    lab.area.get_by_label("rounds per second").select_option("10")
    return lab


def test_notebook_06_top_k_acts_now_and_the_masked_mean_at_the_next_start(
    folder: Path, server: Server, page: Any
) -> None:
    lab = show_slow(folder, server, page, "06_top_k.ipynb")
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
