"""The ideas of the course, a drawing each: what travels, who keeps what, what is lost.

The sources are the SVG files in docs/images/ideas, which the pages show in light and in dark.
Notebooks show the PNG that ``python tools/draw_ideas.py`` makes of each of them, because of a saved
notebook GitHub shows PNG and not SVG.
"""

import base64
import io
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from PIL import Image

__all__ = ["Idea", "draw"]

_FOLDER = files("fltoolkit_course.plots") / "pictures"


@dataclass(frozen=True)  # of a tuple, IPython would print the values below the picture
class Idea:
    """A drawing of an idea. As the last line of a notebook's cell it shows itself."""

    png: bytes  # drawn with 1.5 dots per pixel
    title: str  # the drawing in a sentence, for screen readers
    width: int  # pixels on the page

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"image/png": base64.b64encode(self.png).decode(), "text/plain": self.title}
        return data, {"image/png": {"width": self.width, "alt": self.title}}


def draw(name: str) -> Idea:
    """The drawing of this name, such as "cut", the network that is cut in two.

    Raises ValueError for a name without a drawing; the message lists the names.

    >>> draw("cut").title.split(";")[0]
    'Alice sends activations across the cut, and Bob sends gradients back'
    """
    names = sorted(file.name.removesuffix(".png") for file in _FOLDER.iterdir())
    if name not in names:
        raise ValueError(f"{name!r}: there is no such drawing; choose one of {names}")
    png = (_FOLDER / f"{name}.png").read_bytes()
    image = Image.open(io.BytesIO(png))
    return Idea(png, image.info["Title"], round(image.width / 1.5))
