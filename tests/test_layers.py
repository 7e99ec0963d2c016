"""Imports go one way, and `import fltoolkit` stays light."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fltoolkit

PACKAGE = Path(fltoolkit.__file__).parent
LAYERS = [
    {"trees", "history", "datafiles", "data", "models", "dependence"},
    {"wire", "parts"},
    {
        *("prediction", "contexts", "entropy", "quantize", "levels"),
        *("places", "sparse", "rotate", "lowrank"),
    },
    {"codecs"},
    {"difference"},
    {"channel"},
    {
        *("party", "cost", "conformance", "gates", "cache", "local_sgd"),
        *("clock", "privacy", "adaptive", "defence"),
    },
    {"split", "server_step", "checkpoint", "leakage"},
    {"split_async", "split_variants", "fedavg"},
    {"fedasync"},
    {"spec", "experiment", "sizes"},
    {"training", "store"},
    {"sweep"},
    {
        *("svg", "plots", "live", "course", "codec_report", "widgets"),
        *("analysis", "suggest", "tradeoff"),
    },
    {
        *("runner", "lab", "traces", "dashboard", "panel", "threshold_lab", "fedavg_lab"),
        *("leakage_panel", "tradeoff_panel", "report", "commands", "cli"),
        *("assignment", "sandbox", "grading_worker", "grading", "gradebook", "assignment_cli"),
        *("reading", "check_cell", "seccomp", "mounts", "audit", "users", "names", "looks"),
    },
    {"engines"},
]
MODULES = sorted(  # "wire", "engines.syft"
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if path.stem != "__init__"
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports_of(source: str) -> set[str]:
    """The fltoolkit modules a source imports, at any depth of the file."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fltoolkit."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "fltoolkit":
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(
                a.name.split(".")[1] for a in node.names if a.name.startswith("fltoolkit.")
            )
    return found


def test_every_module_has_a_layer():
    assert {name.split(".")[0] for name in MODULES} == set(LEVEL)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_down(name):
    level = LEVEL[name.split(".")[0]]
    for imported in imports_of((PACKAGE / f"{name.replace('.', '/')}.py").read_text()):
        assert LEVEL[imported] <= level, f"{name} imports {imported}, which lies above it"


@pytest.mark.parametrize(
    "name", ["wire", "codecs", "channel", "party", "split", "checkpoint", "split_async", "fedavg"]
)
def test_algorithms_never_import_data_or_plots(name):
    above = {"data", "models"} | set().union(*LAYERS[-2:])
    assert not imports_of((PACKAGE / f"{name}.py").read_text()) & above


def test_the_import_finder_finds():
    source = "import fltoolkit.data\nfrom fltoolkit import plots\n"
    source += "def f():\n  from fltoolkit.wire import pack"
    assert imports_of(source) == {"data", "plots", "wire"}


def test_import_is_light():
    heavy = ["matplotlib", "ipywidgets", "IPython", "pandas", "sklearn", "scipy", "pooch", "h5py"]
    heavy += ["flwr", "syft", "grpc"]
    code = f"import fltoolkit, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_table_of_contents_is_complete():
    for name in fltoolkit.__all__:
        assert getattr(fltoolkit, name).__doc__, f"{name} has no docstring"
    for name in {name for name in MODULES if "." not in name} - {"widgets"}:
        module = __import__(f"fltoolkit.{name}", fromlist=["__all__"])
        assert set(module.__all__) <= set(dir(module))


def test_no_file_is_two():
    sizes = {path.name: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: n for name, n in sizes.items() if n > 450} == {}


def test_without_syft_the_error_holds_the_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "syft_rds", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "fltoolkit.engines.syft", raising=False)
    line = 'pip install "syft>=0.10,<0.11" "syft-rds>=0.6.1,<0.7"'
    with pytest.raises(ImportError, match=re.escape(line)):
        importlib.import_module("fltoolkit.engines.syft")


def test_nothing_imports_an_engine():
    for path in PACKAGE.glob("*.py"):
        assert "engines" not in imports_of(path.read_text()), path.name
