"""The code of docs/federated.md runs, and prints what the page says."""

import pytest
from pages import run_page


@pytest.mark.slow
def test_the_page_prints_what_it_says(capsys):
    pytest.importorskip("dp_accounting")  # for epsilon
    assert run_page("federated", capsys) == 8
