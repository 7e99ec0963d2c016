"""Write the drawings of the ideas into docs/images/ideas, as SVG for light and dark pages.

    python tools/draw_ideas.py

The glossary and the summary card show them; notebooks draw their own.
"""

from pathlib import Path

from fltoolkit.plots import ideas

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "ideas"

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ideas.__all__:
        text = getattr(ideas, name)().svg_for_both() + "\n"
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
        print(f"{name}.svg: {len(text)} bytes")
