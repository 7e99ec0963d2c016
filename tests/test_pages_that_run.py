"""The code of these pages runs, and prints what the page says."""

import re

import pytest
from mypy import api
from pages import DOCS, run_page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "images", "num_texts"),
    [
        ("federated", 370, 7),
        ("split_extras", None, 2),
        ("one_sum", None, 1),
        ("coming_from", 370, 6),
    ],
)
def test_the_page_prints_what_it_says(name, images, num_texts, capsys):
    if name == "federated":
        pytest.importorskip("dp_accounting")  # for epsilon
    assert run_page(name, capsys, images=images) == num_texts


@pytest.mark.slow
def test_the_code_of_the_readme_passes_a_type_checker(tmp_path, monkeypatch):
    """As a user's own file does, who divides a record's bytes."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    user = tmp_path / "mine.py"
    user.write_text(code + '\nmegabytes: float = records[-1]["nbytes"] / 1e6\n', encoding="utf-8")
    monkeypatch.chdir(DOCS.parent)  # with the settings and the cache of `make check`
    words, errors, status = api.run([str(user)])
    assert status == 0, words + errors
