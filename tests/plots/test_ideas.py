"""The drawings of the ideas: words in the frame, none over another, readable, in both editions."""

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fltoolkit.plots import ideas
from fltoolkit.plots.drawing import Box, Drawing, Mark, Stroke, Words
from fltoolkit.plots.style import COLORS, DARK, DARK_GREY, GREY, INK, PALE, PAPER

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "ideas"
Rectangle = tuple[float, float, float, float]
EDITIONS = ("light", "dark")


def edition(name: str, which: str = "light") -> Drawing:
    drawing: Drawing = getattr(ideas, name)()
    return drawing.dark() if which == "dark" else drawing


def room(words: Words) -> Rectangle:
    """Left, upper, right and lower end of words; a letter is 0.57 or, bold, 0.62 sizes wide."""
    width = (0.62 if words.bold else 0.57) * words.size * len(words.words)
    left = words.x - {"start": 0, "middle": 0.5, "end": 1}[words.anchor] * width
    return left, words.y - 0.8 * words.size, left + width, words.y + 0.22 * words.size


def meet(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def crosses(line: Stroke, box: Rectangle) -> bool:
    """Whether a drawn line goes through a box, looked at in steps of two pixels or less."""
    for (ax, ay), (bx, by) in pairwise(line.points):
        steps = int(max(abs(bx - ax), abs(by - ay)) / 2) + 1
        for k in range(steps + 1):
            x, y = ax + (bx - ax) * k / steps, ay + (by - ay) * k / steps
            if box[0] < x < box[2] and box[1] < y < box[3]:
                return True
    return False


def problems(drawing: Drawing) -> list[str]:
    """What a reader would stumble over."""
    words = [mark for mark in drawing.marks if isinstance(mark, Words)]
    lines = [m for m in drawing.marks if isinstance(m, Stroke) and m.color not in ("none", PALE)]
    boxes = [room(each) for each in words]
    found = []
    for each, (left, upper, right, lower) in zip(words, boxes, strict=True):
        if left < 0 or upper < 0 or right > drawing.width or lower > drawing.height:
            found.append(f"{each.words!r} is not inside the frame")
        if each.size < 13:
            found.append(f"{each.words!r} has {each.size} pixels")
        box = (left, upper, right, lower)
        if not each.halo and any(crosses(line, box) for line in lines):
            found.append(f"a line goes through {each.words!r}")
    found += [
        f"{one.words!r} lies on {other.words!r}"
        for (one, a), (other, b) in combinations(zip(words, boxes, strict=True), 2)
        if meet(a, b)
    ]
    for mark in drawing.marks:
        points = mark.points if isinstance(mark, Stroke) else [(mark.x, mark.y)]
        if not all(0 <= x <= drawing.width and 0 <= y <= drawing.height for x, y in points):
            found.append(f"{type(mark).__name__} at {points[0]} leaves the frame")
    return found


def colors(marks: Any) -> set[str]:
    found = {mark.color for mark in marks}
    return found | {mark.fill for mark in marks if isinstance(mark, Stroke)}


def luminance(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ideas.__all__)
def test_words_are_in_the_frame_and_not_over_each_other(name: str) -> None:
    assert problems(edition(name)) == []


@pytest.mark.parametrize("name", ideas.__all__)
def test_a_drawing_says_itself_in_a_sentence(name: str) -> None:
    drawing = edition(name)
    assert drawing.title.endswith(".")
    assert 60 < len(drawing.title) < 400
    data, metadata = drawing._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == drawing.title
    root = ElementTree.fromstring(drawing.svg())
    assert root.attrib["role"] == "img"
    assert root[0].text == drawing.title


@pytest.mark.parametrize("which", EDITIONS)
@pytest.mark.parametrize("name", ideas.__all__)
def test_colours_are_those_of_the_style_and_words_are_read(name: str, which: str) -> None:
    drawing = edition(name, which)
    style = {*COLORS, GREY, DARK_GREY, PALE, INK, PAPER} if which == "light" else {*DARK.values()}
    assert colors(drawing.marks) <= {*style, "none"}
    assert drawing.paper == (PAPER if which == "light" else DARK[PAPER])
    for mark in drawing.marks:
        if isinstance(mark, Words):
            assert contrast(mark.color, drawing.paper) > 7
        elif isinstance(mark, Stroke) and mark.fill == "none" and mark.color not in (
            PALE, DARK[PALE], GREY, DARK[GREY], "none",
        ):  # fmt: skip
            assert contrast(mark.color, drawing.paper) > 3, mark


@pytest.mark.parametrize("name", ideas.__all__)
def test_the_files_of_the_pages_are_these_drawings(name: str) -> None:
    """`python tools/draw_ideas.py` writes them; their words stand on the page as well."""
    text = edition(name).svg_for_both()
    assert (IMAGES / f"{name}.svg").read_text(encoding="utf-8") == text + "\n", "draw them again"
    glossary = (IMAGES.parents[1] / "glossary.md").read_text(encoding="utf-8")
    assert f"![{edition(name).title}](images/ideas/{name}.svg)" in glossary
    dark = text.partition("<style>")[2].partition("</style>")[0]
    for color in colors(edition(name).marks) - {"none"}:
        assert f'[fill="{color}"]{{fill:{DARK[color]}}}' in dark


def test_top_k_loses_nothing() -> None:
    """In the drawing too: what is sent and what is remembered are the whole of the first panel."""
    boxes = [mark for mark in edition("top_k").marks if isinstance(mark, Box)]
    pale = [box for box in boxes if box.opacity < 1]
    later = [box for box in boxes if box.x > 260]
    assert len(pale) == len(later) == 8
    assert {round((b.x - 20) % 250, 6): b.height for b in later} == {
        round((b.x - 20) % 250, 6): b.height for b in pale
    }
    sent = [box.height for box in later if box.x < 500]
    assert min(sent) >= max(box.height for box in later if box.x > 500)


@pytest.mark.parametrize(
    ("marks", "problem"),
    [
        ([Words(10, 20, "one"), Words(14, 22, "two")], "'one' lies on 'two'"),
        ([Words(80, 20, "a long word")], "not inside the frame"),
        ([Words(10, 20, "small", size=9)], "9 pixels"),
        ([Words(10, 20, "struck"), Stroke([(0, 16), (60, 16)])], "a line goes through 'struck'"),
        ([Stroke([(0, 0), (200, 10)])], "Stroke at .* leaves the frame"),
    ],
)
def test_the_test_finds_what_it_should(marks: list[Mark], problem: str) -> None:
    assert re.search(problem, "\n".join(problems(Drawing(100, 40, "none", marks))))
