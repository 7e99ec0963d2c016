"""Pages whose code runs: each text block is what the Python blocks above it have printed."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def run_page(name, capsys):
    """Run the Python blocks of docs/NAME.md and compare; returns how many texts were compared."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    page: dict = {"__name__": f"docs_{name}"}
    compared = 0
    for kind, block in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            exec(block, page)
        else:
            assert capsys.readouterr().out == block
            compared += 1
    assert capsys.readouterr().out == "", "something printed is not on the page"
    return compared
