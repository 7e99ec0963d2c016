"""The drawings of the ideas: words in the frame, none over another, large enough to read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import labserver
import pytest

from fltoolkit.plots.style import PALE

IMAGES = Path(__file__).parents[3] / "docs" / "images" / "ideas"
SOURCES = {file.stem: file.read_text(encoding="utf-8") for file in sorted(IMAGES.glob("*.svg"))}

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


@pytest.mark.browser
@pytest.mark.parametrize("name", SOURCES)
def test_words_are_in_the_frame_and_not_over_each_other(tab: Any, name: str) -> None:
    assert problems(tab, SOURCES[name]) == []
