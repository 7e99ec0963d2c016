"""Rooms with doors: imports go one way, no circle, no private name elsewhere, one reading order."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import fltoolkit

PACKAGE = Path(fltoolkit.__file__).parent
LEVELS = [  # a room or file of the core imports from lower levels only
    {"arrays"},
    {"trees", "history", "models", "data", "units", "metrics", "fence"},
    {"wire", "party", "cost", "finetuning"},
    {"codecs"},
    {"links"},
    {"channel"},
    {"split", "checkpoint", "testing"},
    {"evaluation", "federated", "pooled"},
    {"leakage", "research", "secrecy"},
    {"plots"},
    {"cup"},
    {"labs", "panels", "course", "assignments", "commands", "cli"},
    {"engines"},
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
FILES = {  # "wire", "codecs.quantize"
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.stem != "__init__"
}
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def imports_of(source: str) -> dict[str, set[str]]:
    """Each fltoolkit module that a source imports from, at any depth of the file, and the names."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fltoolkit":
            for alias in node.names:
                module = f"{node.module}.{alias.name}".removeprefix("fltoolkit.")
                if module not in FILES and module not in ROOMS:
                    module = (node.module or "").removeprefix("fltoolkit").lstrip(".")
                found.setdefault(module, set()).add(alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("fltoolkit."):
                    found.setdefault(alias.name.removeprefix("fltoolkit."), set())
    return found


@cache
def imports() -> dict[str, dict[str, set[str]]]:
    """What each file imports."""
    return {name: imports_of(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def room_of(module: str) -> str:
    return module.split(".")[0]


def test_the_import_finder_finds():
    source = "import fltoolkit.data.datasets\nfrom fltoolkit import plots, Channel\n"
    source += "def f():\n  from fltoolkit.wire import pack, _Header"
    assert imports_of(source) == {
        "data.datasets": set(),
        "plots": {"plots"},
        "": {"Channel"},
        "wire": {"pack", "_Header"},
    }


def test_every_room_has_a_level():
    assert {room_of(name) for name in FILES} == set(LEVEL)


def test_imports_go_down():
    not_below = [
        f"{name} imports {imported}"
        for name, found in imports().items()
        for imported in filter(None, map(room_of, found))
        if imported != room_of(name) and LEVEL[imported] >= LEVEL[room_of(name)]
    ]
    assert not_below == []


def test_there_is_no_circle():
    """Neither among files nor, since levels are strict, among rooms."""
    waiting = {name: {i for i in found if i in FILES} for name, found in imports().items()}
    while ready := {name for name, needs in waiting.items() if not needs & waiting.keys()}:
        waiting = {name: needs for name, needs in waiting.items() if name not in ready}
    assert not waiting, f"these files import each other, or one that does: {sorted(waiting)}"


def test_no_private_name_crosses_a_module():
    crossing = [
        f"{name} takes {each} from {module}"
        for name, found in imports().items()
        for module, names in found.items()
        for each in names
        if each.startswith("_") and not each.startswith("__") and f"{module}.{each}" not in FILES
    ]
    assert crossing == []


OF_OTHERS = {  # documented, though their names begin with an underscore, or without another way
    *("_asdict", "_replace", "_fields"),  # of NamedTuple
    "_exit",  # of os
    *("_foreach_add", "_foreach_add_", "_foreach_sub", "_buffers"),  # of torch
    "_ensure_iopub_up",  # of nbclient
}


def private_of_others(source: str) -> list[str]:
    """Attributes that begin with an underscore and that this source neither makes nor assigns.

    What a file reads it must also define: as a method, in a class body or by assignment. So a
    subclass that reads its base class's ``self._x`` is found too, if the base is in another file.
    """
    tree = ast.parse(source)
    made: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                made.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match("_[^_]", node.attr)
        and node.attr not in made | OF_OTHERS
    ]


def test_the_finder_of_private_attributes_finds():
    source = "class A:\n  _a = 1\n  def __init__(self, b):\n    self._b = b._b + self._a\n"
    source += "    b._c = self._d(b._replace(a=1)).__class__\n"
    assert private_of_others(source) == ["line 5: b._c", "line 5: self._d"]


def test_no_private_attribute_of_another_file_is_used():
    for name, path in FILES.items():
        assert private_of_others(path.read_text(encoding="utf-8")) == [], name


def test_no_private_file_is_used_from_another_room():
    crossing = [
        f"{name} uses {module}"
        for name, found in imports().items()
        for module in found
        if "._" in module and room_of(module) != room_of(name)
    ]
    assert crossing == []


CORE = ["codecs", "links", "channel", "party", "split", "federated", "checkpoint"]


def test_algorithms_never_import_data_or_plots():
    above = {"data", "models"} | set().union(*LEVELS[-5:])
    for name in FILES:
        if room_of(name) in CORE:
            assert not {room_of(imported) for imported in imports()[name]} & above, name


def listed(docstring: str | None) -> list[str]:
    """The names at the beginning of the indented lines, in order."""
    return re.findall(r"^    (\w+) +\S", docstring or "", re.MULTILINE)


def test_the_reading_order_names_every_module_once():
    core = [name for name in FILES if "." not in name]
    assert sorted(listed(fltoolkit.__doc__)) == sorted([*core, *ROOMS])
    for room in ROOMS:
        files = [name.split(".")[1] for name in FILES if room_of(name) == room]
        told = importlib.import_module(f"fltoolkit.{room}").__doc__ if room != "engines" else None
        told = told or ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text()))
        public = [name for name in files if not name.startswith("_")]
        assert sorted(name for name in listed(told) if name in files) == sorted(public), room
        for name in files:
            assert name in (told or ""), f"{room}.{name} is on nobody's path"


def test_no_file_says_what_comes_next():
    assert [name for name, path in FILES.items() if re.search(r"\bNext: ", path.read_text())] == []


def modules_after(*steps: str) -> list[str]:
    """Which modules are there after each of these steps of one process, as words."""
    look = "; import sys; print(*sys.modules)"
    code = "\n".join(step + look for step in steps)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_import_is_light_and_waits_for_the_first_use_of_a_name():
    """Light also with all names of the door, and with digits: scikit-learn takes two seconds."""
    at_first, with_pack, with_all = (
        {*found.split()}
        for found in modules_after(
            "import fltoolkit; fltoolkit.__version__",
            "from fltoolkit import pack",
            "from fltoolkit import *; Channel(); load('digits')",
        )
    )
    files = {"fltoolkit.wire", "fltoolkit.channel", "fltoolkit.federated.rounds"}
    assert at_first & files == set()
    assert with_pack & files == {"fltoolkit.wire"}
    heavy = {"matplotlib", "ipywidgets", "IPython", "pandas", "sklearn", "scipy", "pooch", "h5py"}
    assert with_all & (heavy | {"flwr", "syft", "grpc"}) == set()
    assert files <= with_all


def test_the_door_finds_names_and_rooms_and_nothing_else():
    assert fltoolkit.Channel is importlib.import_module("fltoolkit.channel").Channel
    assert fltoolkit.codecs is importlib.import_module("fltoolkit.codecs")
    assert {*fltoolkit.__all__} <= {*dir(fltoolkit)}
    with pytest.raises(AttributeError, match="'fltoolkit' has no attribute 'chanel'"):
        _ = fltoolkit.chanel


def test_doors_hold_what_they_say():
    for name in fltoolkit.__all__:
        assert getattr(fltoolkit, name).__doc__, f"{name} has no docstring"
    for room in set(ROOMS) - {"engines"}:
        door = importlib.import_module(f"fltoolkit.{room}")
        assert all(hasattr(door, name) for name in door.__all__), room
        assert not [name for name in door.__all__ if name.startswith("_")]


def test_no_public_name_hides_a_file_of_its_room():
    """``fltoolkit.secrecy.x`` would be a function where a reader expects the file ``x.py``."""
    rooms = {
        room: importlib.import_module(f"fltoolkit.{room}").__all__
        for room in {*ROOMS} - {"engines"}
    }
    hidden = {f"{room}.{name}" for room, names in rooms.items() for name in names} & {*FILES}
    hidden |= {*fltoolkit.__all__} & {*ROOMS, *FILES}
    assert hidden == set()


def test_experiments_import_in_one_direction():
    root = PACKAGE.parent / "experiments"
    needs: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        froms = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom))
        needs[module.removesuffix(".__init__")] = {
            name
            for node in froms
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            if name and name.startswith("experiments.")
        }
    assert any(needs.values()), "no import was found: then this test could not fail"
    while ready := {name for name, found in needs.items() if not found & needs.keys()}:
        needs = {name: found for name, found in needs.items() if name not in ready}
    assert not needs, f"these files import each other, or one that does: {sorted(needs)}"


def test_without_syft_the_error_holds_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "syft_rds", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "fltoolkit.engines.syft", raising=False)
    line = 'pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7"'
    with pytest.raises(ImportError, match=re.escape(line)):
        importlib.import_module("fltoolkit.engines.syft")
