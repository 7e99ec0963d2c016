"""Codecs of other systems before the suite: docs/codecs.md shows what the example prints."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.later
def test_the_page_shows_what_the_suite_finds(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "foreign_codecs.py"))
    example["main"]()
    printed = capsys.readouterr().out
    assert printed.count("\n") == 7
    assert printed in (ROOT / "docs" / "codecs.md").read_text(encoding="utf-8")
