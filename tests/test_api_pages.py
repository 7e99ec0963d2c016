"""Every public name is on a page of the API reference.

Public is what a public module (one whose name does not begin with an underscore) holds in its
``__all__``, and what a room's door takes from it. The pages are made by docs/api_pages.py.
"""

import importlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pages import load

ROOT = Path(__file__).parents[1]
api_pages = load(ROOT / "docs" / "api_pages.py")

# what cannot be imported without PySyft, or on Windows, is looked at elsewhere
LEFT_OUT = {"fltoolkit_engines"} if find_spec("syft_rds") is None else set()
LEFT_OUT |= {"fltoolkit_grading"} if sys.platform == "win32" else set()
PAGES = [page for page in api_pages.pages() if page not in LEFT_OUT]
names_of = api_pages.names_of


def test_there_is_a_page_for_each_package_and_each_room():
    folder = ROOT / "docs" / "api"
    for page in api_pages.pages():
        assert (folder / f"{page}.rst").read_text() == f".. room:: {page}\n"
    assert {path.stem for path in folder.iterdir()} == {*api_pages.pages(), "index"}
    order = re.findall(r"^   (\w[\w.]+)$", (folder / "index.rst").read_text(), re.MULTILINE)
    assert order == api_pages.pages()
    assert "\napi/index\n" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.later
@pytest.mark.parametrize("page", PAGES)
def test_a_page_holds_every_name_that_users_import(page):
    door = importlib.import_module(page)
    told = {each.name for each in names_of(page)} | api_pages.elsewhere(page).keys()
    assert set(getattr(door, "__all__", [])) <= told
    paths = [each.path for each in names_of(page)]
    assert len(paths) == len(set(paths))
