"""The code of docs/split_extras.md runs, and prints what the page says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "split_extras.md"
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_prints_what_it_says(capsys):
    page: dict = {"__name__": "docs_split_extras"}
    compared = 0
    for kind, block in BLOCKS:
        if kind == "python":
            exec(block, page)
        else:
            assert capsys.readouterr().out == block
            compared += 1
    assert compared == 3
    assert capsys.readouterr().out == "", "something printed is not on the page"
