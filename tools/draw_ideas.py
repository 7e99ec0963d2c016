"""Turn the drawings in docs/images/ideas (SVG) into the PNG files that notebooks show.

    python tools/draw_ideas.py

It needs Chromium; the variable CHROMIUM may hold its path. Each PNG holds the drawing's title
and the checksum of the SVG file, with which a test finds pictures that are older than their source.
"""

import hashlib
import io
import os
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image, PngImagePlugin
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "docs" / "images" / "ideas"
PICTURES = ROOT / "fltoolkit_course" / "plots" / "pictures"


def title_of(svg: bytes) -> str:
    """The sentence that describes the drawing."""
    return ElementTree.fromstring(svg).findtext("{*}title") or ""


def png_of(svg: bytes, page: Page) -> bytes:
    """The drawing on light paper, in few colours, with its title and its source's checksum."""
    page.set_content(f'<body style="margin:0">{svg.decode()}')
    drawn = page.locator("svg").screenshot()
    text = PngImagePlugin.PngInfo()
    text.add_text("Title", title_of(svg))
    text.add_text("Source", hashlib.sha256(svg).hexdigest())
    file = io.BytesIO()
    image = Image.open(io.BytesIO(drawn)).convert("RGB").quantize(256)
    image.save(file, format="png", optimize=True, pnginfo=text)
    return file.getvalue()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = chromium.new_page(device_scale_factor=1.5, color_scheme="light")
        for source in sorted(SOURCES.glob("*.svg")):
            png = png_of(source.read_bytes(), page)
            (PICTURES / f"{source.stem}.png").write_bytes(png)
            print(f"{source.stem}.png: {len(png)} bytes")
