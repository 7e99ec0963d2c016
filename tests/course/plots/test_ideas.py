"""The drawings of the ideas: words in the frame, none over another, readable, light and dark."""

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import labserver
import pytest
from PIL import Image

from fltoolkit.plots.style import COLORS, DARK_GREY, GREY, INK, PALE, PAPER
from fltoolkit_course.plots import ideas

IMAGES = Path(__file__).parents[3] / "docs" / "images" / "ideas"
SOURCES = {file.stem: file.read_text(encoding="utf-8") for file in sorted(IMAGES.glob("*.svg"))}
LIGHT = (*COLORS, GREY, DARK_GREY, PALE, INK, PAPER)
DARK_COLORS = (  # the same on dark paper, as docs/explore/explore.css has them
    "#56b4e9 #e69f00 #2bc79a #d98cbc #ececec #d9b44a #8cc8ee #c4a594 "
    "#565c62 #8d949b #2c3136 #ececec #15181b"
)
DARK = dict(zip(LIGHT, DARK_COLORS.split(" "), strict=True))

PROBLEMS = """(pale) => {
  const svg = document.querySelector("svg"), frame = svg.viewBox.baseVal, found = [];
  const meet = (a, b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const shapes = [...svg.querySelectorAll(":scope > :is(path, rect, circle, text)")];
  const size = (text) => parseFloat(getComputedStyle(text).fontSize);
  const words = shapes.filter((s) => s.tagName === "text").map((text) => {
    const {x, width} = text.getBBox(), base = +text.getAttribute("y"), high = size(text);
    const box = {left: x, right: x + width, top: base - 0.8 * high, bottom: base + 0.22 * high};
    return {text, box, name: `'${text.textContent}'`};
  });
  for (const shape of shapes) {
    const {x, y, width, height} = shape.getBBox();
    if (x < 0 || y < 0 || x + width > frame.width || y + height > frame.height)
      found.push(`${shape.tagName} ${shape.textContent} leaves the frame`);
  }
  words.forEach(({text, box, name}, i) => {
    if (size(text) < 13) found.push(`${name} has ${size(text)} pixels`);
    words.slice(i + 1).filter((other) => meet(box, other.box)).forEach((other) =>
      found.push(`${name} lies on ${other.name}`));
    if (text.getAttribute("stroke-width")) return;  // a border keeps these words readable
    for (const line of shapes.filter((s) => s !== text && s.getAttribute("stroke"))) {
      if (line.tagName === "text" || line.getAttribute("stroke") === pale) continue;
      for (let at = 0; at <= line.getTotalLength(); at += 2) {
        const {x, y} = line.getPointAtLength(at);
        if (meet(box, {left: x, right: x, top: y, bottom: y})) {
          found.push(`a line goes through ${name}`);
          break;
        }
      }
    }
  });
  return found;
}"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    with labserver.browser() as started:
        yield started.new_page()


def problems(tab: Any, svg: str) -> list[str]:
    """What a reader would stumble over, as Chromium measures it."""
    tab.set_content(svg)
    found: list[str] = tab.evaluate(PROBLEMS, PALE)
    return found


def luminance(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.browser
@pytest.mark.parametrize("name", SOURCES)
def test_words_are_in_the_frame_and_not_over_each_other(tab: Any, name: str) -> None:
    assert problems(tab, SOURCES[name]) == []


@pytest.mark.browser
@pytest.mark.parametrize(
    ("marks", "problem"),
    [
        ('<text x="10" y="20">one</text><text x="14" y="22">two</text>', "'one' lies on 'two'"),
        ('<text x="80" y="20">a long word</text>', "text a long word leaves the frame"),
        ('<text x="10" y="20" font-size="9">small</text>', "9 pixels"),
        (
            '<text x="10" y="20">struck</text><path d="M0 16 L60 16" stroke="#777777"/>',
            "a line goes through 'struck'",
        ),
        ('<path d="M0 0 L200 10" stroke="#777777"/>', "path  leaves the frame"),
    ],
)
def test_the_test_finds_what_it_should(tab: Any, marks: str, problem: str) -> None:
    svg = f'<svg viewBox="0 0 100 40" width="100" height="40" font-size="14">{marks}</svg>'
    assert problem in "\n".join(problems(tab, svg))


@pytest.mark.parametrize("name", SOURCES)
def test_notebooks_show_the_drawing_and_say_it_in_a_sentence(name: str) -> None:
    """``python tools/draw_ideas.py`` makes the pictures anew."""
    drawn, root = ideas.draw(name), ElementTree.fromstring(SOURCES[name])
    assert root.attrib["role"] == "img"
    assert drawn.title == root.findtext("{*}title")
    assert drawn.title.endswith(".")
    assert 60 < len(drawn.title) < 400
    data, metadata = drawn._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == drawn.title
    assert metadata["image/png"]["width"] == float(root.attrib["width"])
    checksum = hashlib.sha256((IMAGES / f"{name}.svg").read_bytes()).hexdigest()
    assert Image.open(io.BytesIO(drawn.png)).info["Source"] == checksum, "draw it again"
    glossary = (IMAGES.parents[1] / "glossary.md").read_text(encoding="utf-8")
    assert f"![{drawn.title}](images/ideas/{name}.svg)" in glossary


def test_a_name_without_a_drawing_lists_those_that_have_one() -> None:
    with pytest.raises(ValueError, match=re.escape("'cat': there is no such drawing; choose one")):
        ideas.draw("cat")
    with pytest.raises(ValueError, match=re.escape(str([*SOURCES]))):
        ideas.draw("cat")


@pytest.mark.parametrize("name", SOURCES)
def test_colours_are_those_of_the_style_and_words_are_read(name: str) -> None:
    """Each colour has its counterpart for dark pages, and both are told from their paper."""
    style, _, drawing = SOURCES[name].partition("</style>")
    used = set(re.findall(r'(?:fill|stroke)="(#\w+)"', style.partition("<style>")[0] + drawing))
    assert used <= {*LIGHT}
    for color in used:
        for key in ("fill", "stroke"):
            assert f'[{key}="{color}"] {{ {key}: {DARK[color]} }}' in style
    for light in used - {PALE, GREY, PAPER}:
        assert contrast(light, PAPER) > 3
        assert contrast(DARK[light], DARK[PAPER]) > 3
    root = ElementTree.fromstring(SOURCES[name])
    words = {text.get("fill", root.get("fill")) for text in root.findall(".//{*}text")}
    assert words == {INK}
    assert contrast(INK, PAPER) > 7
    assert contrast(DARK[INK], DARK[PAPER]) > 7


def test_top_k_loses_nothing() -> None:
    """In the drawing too: what is sent and what is remembered are the whole of the first panel."""
    bars = [
        (float(bar.attrib["x"]), float(bar.attrib["height"]), "fill-opacity" in bar.attrib)
        for bar in ElementTree.fromstring(SOURCES["top_k"]).findall(".//{*}rect")
        if bar.get("width") == "16"
    ]
    whole = {x - 20: height for x, height, pale in bars if pale}
    sent = {x - 270: height for x, height, _ in bars if 260 < x < 500}
    remembered = {x - 520: height for x, height, _ in bars if x > 500}
    assert len(whole) == 8
    assert sent | remembered == whole
    assert min(sent.values()) >= max(remembered.values())
