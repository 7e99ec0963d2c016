"""Every public name is on a page of the API reference, and has an example that is run as a test.

Public is what a public module (one whose name does not begin with an underscore) holds in its
``__all__``, and what a room's door takes from it. The pages are made by docs/api_pages.py.
"""

import doctest
import importlib
import importlib.util
import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("api_pages", ROOT / "docs" / "api_pages.py")
api_pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(api_pages)

# what cannot be imported without PySyft, or on Windows, is looked at elsewhere
LEFT_OUT = {"fltoolkit_engines"} if find_spec("syft_rds") is None else set()
LEFT_OUT |= {"fltoolkit_grading"} if sys.platform == "win32" else set()
PAGES = [page for page in api_pages.pages() if page not in LEFT_OUT]
names_of = api_pages.names_of

WITHOUT_EXAMPLE = {  # name: why it has none
    "fltoolkit_contest.verify": "five runs behind a fence take a minute; tests/contest has some",
    "fltoolkit_contest.draw_card": "draws a card, which a verification has to make first",
    "fltoolkit_contest.show_card": "shows a card, which a verification has to make first",
    "fltoolkit_contest.draw_history": "draws cards, which verifications have to make first",
    "fltoolkit.data.files.DataNotFoundError": "it needs a machine without data and network",
    "fltoolkit_research.data.load_cifar10": "it reads a file that has to be downloaded",
    "fltoolkit_research.data.load_emnist_federated": "it reads a file that has to be downloaded",
    "fltoolkit_research.cluster": "needs a running Dask cluster and the package distributed",
    "fltoolkit_engines.torch_distributed.DistributedChannel": (
        "needs a process group of torch.distributed, that is sockets and usually a second"
        " process (torchrun)"
    ),
    "fltoolkit_engines.dask.DaskChannel": "needs a running Dask cluster",
    "fltoolkit_engines.flower.FlowerError": "it needs a node with a mistake",
    "fltoolkit_engines.remote.RemoteGate": "needs a label party in another process",
    "fltoolkit_engines.syft_jobs.ReviewedJob": "needs an owner's approval; notebook 09 has one",
    "fltoolkit_engines.torch_distributed.PeerError": "it needs a process that ends",
    "fltoolkit_research.federated.AllGather": "Exchange has an example of all exchanges",
    "fltoolkit.federated.Collecting": "a protocol; SecureSum has an example",
    "fltoolkit.federated.LocalUpdate": "local_update returns one",
    "fltoolkit_research.federated.ThroughServer": "Exchange has an example of all exchanges",
    "fltoolkit.federated.mean_of_all": "WithMasks has an example of both means",
    "fltoolkit_engines.flower.client_app": (
        "needs Flower, which is not installed in the test environment"
    ),
    "fltoolkit_engines.flower.server_app": (
        "needs Flower, which is not installed in the test environment"
    ),
    "fltoolkit_research.secrecy.align": "needs openmined-psi, which is on Linux only",
    "fltoolkit_grading.check_notebook": "starts a Jupyter kernel",
    "fltoolkit_grading.grade": "starts worker processes and fenced kernels",
}


def has_example(value: object) -> bool:
    """Whether its own docstring, or that of one of its own public methods, holds a doctest."""
    methods = (staticmethod, classmethod, property, FunctionType)
    own = vars(value).items() if isinstance(value, type) else ()
    holders = [each for name, each in own if name[0] != "_" and isinstance(each, methods)]
    texts = [each.__doc__ or "" for each in (value, *holders)]
    return any(doctest.DocTestParser().get_examples(text) for text in texts)


def test_an_example_is_found_where_there_is_one():
    class With:
        """Says: a method of it has one."""

        def method(self):
            """Do nothing.

            >>> 1 + 1
            2
            """

    class Without(With):
        """Has no example of its own, though int has one."""

        number = 1

        def method(self):
            pass

    assert has_example(With)
    assert has_example(With.method)
    assert not has_example(Without)


@pytest.mark.parametrize("page", PAGES)
def test_every_class_and_function_has_an_example(page):
    missing = [
        each.path
        for each in names_of(page)
        if (api_pages.is_class(each.value) or inspect.isroutine(each.value))
        and not has_example(each.value)
        and each.path not in WITHOUT_EXAMPLE
    ]
    assert missing == []


def test_each_exception_still_is_one():
    found = {each.path: each.value for page in PAGES for each in names_of(page)}
    here = [path for path in WITHOUT_EXAMPLE if path.split(".")[0] not in LEFT_OUT]
    assert [path for path in here if has_example(found[path])] == []


def test_there_is_a_page_for_each_package_and_each_room():
    folder = ROOT / "docs" / "api"
    for page in api_pages.pages():
        assert (folder / f"{page}.rst").read_text() == f".. room:: {page}\n"
    assert {path.stem for path in folder.iterdir()} == {*api_pages.pages(), "index"}
    order = re.findall(r"^   (\w[\w.]+)$", (folder / "index.rst").read_text(), re.MULTILINE)
    assert order == api_pages.pages()
    assert "\napi/index\n" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_holds_every_name_that_users_import(page):
    door = importlib.import_module(page)
    told = {each.name for each in names_of(page)} | api_pages.elsewhere(page).keys()
    assert set(getattr(door, "__all__", [])) <= told
    paths = [each.path for each in names_of(page)]
    assert len(paths) == len(set(paths))


def test_prose_becomes_rest():
    told = [
        "Of |x|^2 and a*b, see `Channel`s.", "", "    one    the first", "    two    the second",
        "", "Then x_ again:", ">>> 2 * 3", "6", "", "Args:", "    x: *all* of it.",
    ]  # fmt: skip
    assert api_pages.as_rest(told) == [
        r"Of \|x\|^2 and a\*b, see `Channel`\ s.", "", "::", "", "    one    the first",
        "    two    the second", "", r"Then x\_ again:", "", ">>> 2 * 3", "6", "",
        "Args:", r"    x: \*all\* of it.", "",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_built_pages_hold_every_name(site):
    for page in PAGES:
        html = (site / "docs" / "api" / f"{page}.html").read_text()
        missing = [each.path for each in names_of(page) if f'id="{each.path}"' not in html]
        assert missing == [], page
