"""Six packages, and the rooms of the core: imports go one way, no circle, nothing too much."""

import ast
import importlib
import re
import subprocess
import sys
from functools import cache

import pytest

import fltoolkit
from tools import house

ROOT = house.ROOT
# of the core, at most; the stubs (.pyi) count as lines and not as files
NUM_LINES, NUM_FILES, NUM_REQUIRED = 10_500, 55, 9
MAY_IMPORT = {  # of the other packages
    "fltoolkit": set(),
    "fltoolkit_research": {"fltoolkit"},
    "fltoolkit_engines": {"fltoolkit"},
    "fltoolkit_grading": {"fltoolkit"},
    "fltoolkit_contest": {"fltoolkit", "fltoolkit_research", "fltoolkit_grading"},
    "fltoolkit_course": {"fltoolkit", "fltoolkit_research", "fltoolkit_contest"},
    "experiments": {"fltoolkit", "fltoolkit_research", "fltoolkit_engines", "fltoolkit_course"},
}
LEVELS = [  # a room or file of the core imports from lower levels only
    {"arrays", "cli", "shapes"},
    {"compiled", "trees", "history", "models", "data", "units", "metrics"},
    {"wire", "party", "cost"},
    {"codecs"},
    {"links"},
    {"channel"},
    {"split", "checkpoint", "testing"},
    {"evaluation", "federated"},
    {"plots"},
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
FILES = {  # "fltoolkit.codecs.quantize": its path
    house.module_name(ROOT, path): path
    for package in MAY_IMPORT
    for path in house.sources(ROOT, package)
    if path.suffix == ".py"
}
ROOMS = sorted(  # every folder of an installed package that has files
    house.module_name(ROOT, path)
    for package in house.packages()
    for path in (ROOT / package).rglob("__init__.py")
)


@cache
def imports() -> dict[str, dict[str, set[str]]]:
    """What each file names; ``from fltoolkit import plots`` names the module fltoolkit.plots."""
    found: dict[str, dict[str, set[str]]] = {}
    for name, path in FILES.items():
        found[name] = {}
        for module, names in house.imports_of(path.read_text(encoding="utf-8")).items():
            files = {each for each in names if f"{module}.{each}" in FILES}
            for each in files:
                found[name].setdefault(f"{module}.{each}", set()).add(each)
            if names - files or not names:
                found[name].setdefault(module, set()).update(names - files)
    return found


def room_of(module: str) -> str:
    """The file or room of the core to which a module belongs: "codecs" for the quantizer."""
    return module.split(".")[1] if "." in module else ""


def test_every_package_is_in_the_house():
    assert {*house.packages(), "experiments"} == set(MAY_IMPORT)


def test_packages_import_one_way():
    arrows = {
        (name.split(".")[0], module.split(".")[0])
        for name, found in imports().items()
        for module in found
    }
    assert [each for each in arrows if each[1] not in MAY_IMPORT[each[0]] | {each[0]}] == []
    taken = {module for name, found in imports().items() if "contest" in name for module in found}
    assert {module for module in taken if "grading" in module} == {"fltoolkit_grading.fence"}


def test_rooms_of_the_core_import_from_lower_levels():
    assert {room_of(name) for name in FILES if name.startswith("fltoolkit.")} == set(LEVEL)
    not_below = [
        f"{name} imports {module}"
        for name, found in imports().items()
        for module in found
        if name.startswith("fltoolkit.") and module.startswith("fltoolkit.")
        if room_of(module) != room_of(name) and LEVEL[room_of(module)] >= LEVEL[room_of(name)]
    ]
    assert not_below == []


def test_no_files_import_each_other():
    waiting = {name: found.keys() & (FILES.keys() - {name}) for name, found in imports().items()}
    while ready := {name for name, needs in waiting.items() if not needs & waiting.keys()}:
        waiting = {name: needs for name, needs in waiting.items() if name not in ready}
    assert not waiting, f"these files import each other, or one that does: {sorted(waiting)}"


def test_no_private_name_crosses_a_module_and_no_private_file_a_package():
    crossing = [
        f"{name} takes {module}: {sorted(names)}"
        for name, found in imports().items()
        for module, names in found.items()
        if not name.startswith("experiments")
        and (
            [each for each in names if re.match("_[^_]", each) and f".{each}" not in module]
            or ("._" in module and module.rpartition(".")[0] != name.rpartition(".")[0])
        )
    ]
    assert crossing == []


def test_the_core_stays_small_and_has_no_name_that_nothing_uses():
    files = house.sources(ROOT, "fltoolkit")
    assert house.num_lines(files) <= NUM_LINES
    assert len([path for path in files if path.suffix == ".py"]) <= NUM_FILES
    assert len(house.required()) <= NUM_REQUIRED
    assert house.unused_names() == []


def test_an_unused_name_is_found(tmp_path):
    """Both kinds: one that is exported for nobody, one that no file needs."""
    for folder in ("fltoolkit", "notebooks", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "README.md").write_text("`used`")
    (tmp_path / "fltoolkit" / "__init__.py").write_text("")
    (tmp_path / "fltoolkit" / "__init__.pyi").write_text(
        "from .a import used as used\nfrom .a import inner as inner\n"
    )
    code = "def used(): inner()\ndef inner(): ...\ndef dead(): ...\n"
    (tmp_path / "fltoolkit" / "a.py").write_text(code)
    assert house.unused_names(tmp_path) == ["fltoolkit: inner", "fltoolkit.a.dead"]


CHOREOGRAPHY = ["codecs", "links", "channel", "party", "split", "federated", "checkpoint"]


def test_algorithms_never_import_data_or_plots():
    above = {f"fltoolkit.{room}" for room in ("data", "models", "plots", "evaluation")}
    for name, found in imports().items():
        if name.startswith("fltoolkit.") and room_of(name) in CHOREOGRAPHY:
            assert not {".".join(module.split(".")[:2]) for module in found} & above, name


@pytest.mark.parametrize("room", ROOMS)
def test_the_reading_order_names_every_file_and_room_once(room):
    docstring = ast.get_docstring(ast.parse(FILES[room].read_text(encoding="utf-8"))) or ""
    inside = {name.rpartition(".")[2] for name in FILES if name.rpartition(".")[0] == room}
    public = {name for name in inside if not name.startswith("_")}
    told = re.findall(r"^    (\w+) +\S", docstring, re.M)
    assert sorted(name for name in told if name in inside) == sorted(public)
    assert not [name for name in inside if name not in docstring]


@pytest.mark.later
def test_import_is_light_and_waits_for_the_first_use_of_a_name():
    """Light also with all names of the door, and with digits: scikit-learn takes two seconds."""
    steps = ("import fltoolkit; fltoolkit.__version__", "from fltoolkit import pack")
    steps += ("from fltoolkit import *; Channel(); load('digits')",)
    code = "\n".join(f"{step}; import sys; print(*sys.modules)" for step in steps)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    at_first, with_pack, with_all = ({*line.split()} for line in done.stdout.splitlines())
    files = {"fltoolkit.wire", "fltoolkit.channel", "fltoolkit.federated.rounds"}
    assert at_first & files == set()
    assert with_pack & files == {"fltoolkit.wire"}
    heavy = {"matplotlib", "ipywidgets", "IPython", "pandas", "sklearn", "scipy", "pooch"}
    assert with_all & (heavy | {"flwr", "syft", "grpc"}) == set()
    assert files <= with_all


def test_the_door_finds_names_and_rooms_and_nothing_else():
    assert fltoolkit.Channel is importlib.import_module("fltoolkit.channel").Channel
    assert fltoolkit.codecs is importlib.import_module("fltoolkit.codecs")
    assert {*fltoolkit.__all__} <= {*dir(fltoolkit)}
    with pytest.raises(AttributeError, match=r"'fltoolkit' has no attribute 'chanel'.*coming_from"):
        _ = fltoolkit.chanel


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "fltoolkit_engines"])
def test_exported_names_exist_and_hide_no_file(room):
    """``fltoolkit.x`` would be a function where a reader expects the file ``x.py``."""
    module = importlib.import_module(room)
    names = getattr(module, "__all__", [])
    assert all(hasattr(module, name) for name in names)
    assert not [name for name in names if name.startswith("_") or f"{room}.{name}" in FILES]


def test_without_syft_the_error_holds_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "syft_rds", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "fltoolkit_engines.syft", raising=False)
    line = 'pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7"'
    with pytest.raises(ImportError, match=re.escape(line)):
        importlib.import_module("fltoolkit_engines.syft")
