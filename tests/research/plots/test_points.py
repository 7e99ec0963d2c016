"""Points with names: beside their dots, and nothing is covered."""

from itertools import combinations

import pytest

from fltoolkit_research.plots import named_points


def test_names_of_points_cover_neither_dots_nor_each_other() -> None:
    """As crowded as the bill of notebook 08."""
    crowd = {"float32": (96.7, 0.96), "8 bits": (96.7, 0.96), "4 bits": (96.4, 0.93)}
    crowd |= {"NoPeek 1": (96.1, 0.95), "noise 2": (93.1, 0.49), "noise 4": (93.6, 0.48)}
    crowd |= {"NoPeek 3, noise 0.5": (93.9, 0.5), "top-k 2 %": (95.6, 0.62)}
    ax = named_points(crowd, "accuracy [%]", "explained variance")
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    dots = ax.transData.transform(list(crowd.values()))
    assert "float32, 8 bits" in {text.get_text() for text in ax.texts}, "they are one dot"
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
    assert "NoPeek 1: 96.1, 0.95" in ax.get_label()
    with pytest.raises(ValueError, match="no points to draw"):
        named_points({}, "x", "y")
