"""What all pictures share: shown as PNG with their numbers as text."""

import matplotlib as mpl
import matplotlib.figure
import pytest
from core.plots.made_histories import run

from fltoolkit import plots


@pytest.mark.later
def test_show_displays_a_png_and_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append((data, more)))
    plots.show(plots.accuracy_over_bytes({"split": run(0.5, 0.9712)}))
    figure = mpl.figure.Figure()
    figure.subplots().plot([1, 2], [3, 4], label="mine")
    plots.show(figure.axes[0])
    (ours, more), (theirs, _) = shown
    assert set(ours) == {"image/png", "text/plain"}
    assert more["raw"] is True
    assert ours["text/plain"] == "split ends at accuracy 97.1 %, bytes sent 4.0 MB"
    assert theirs["text/plain"] == "mine ends at (2, 4)"
