"""The code of docs/split_extras.md runs, and prints what the page says."""

import pytest
from pages import run_page


@pytest.mark.slow
def test_the_page_prints_what_it_says(capsys):
    assert run_page("split_extras", capsys) == 3
