"""Pages whose code runs: each text block is what the Python blocks above it have printed."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
ACCURACY = re.compile(r"\d+\.\d(?= % \(| to \d+\.\d\)|\)  )")  # in "92.0 % (90.6 to 92.8)  "


def run_page(name, capsys, images=None):
    """Run the Python blocks of docs/NAME.md and compare; returns how many texts were compared.

    With ``images``, an accuracy of so many test images (see `ACCURACY`) may differ by one of them,
    as the page then says. All else must be equal, to the letter.
    """
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    page: dict = {"__name__": f"docs_{name}"}
    compared = 0
    for kind, block in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            exec(block, page)
        else:
            printed = capsys.readouterr().out
            if images:
                printed = with_accuracies_of(block, printed, 100 / images)
            assert printed == block
            compared += 1
    assert capsys.readouterr().out == "", "something printed is not on the page"
    return compared


def with_accuracies_of(block, printed, image):
    """What was printed, with the page's accuracies in place of those that are one image off."""
    wanted = iter(ACCURACY.findall(block))

    def chosen(found):
        old = next(wanted, "")  # both were rounded to 0.1
        return old if old and abs(float(old) - float(found[0])) <= image + 0.1 else found[0]

    return ACCURACY.sub(chosen, printed)
