"""tools/install.py: uv is told where pip finds packages, and both install one torch; and
tools/try_pythons.py, which uses it for each Python. Then try_arm64.py and make_slides.py.
"""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pages import load

TOOL = Path(__file__).parents[1] / "tools" / "install.py"
NOTEBOOKS = TOOL.parents[1] / "notebooks"


install = load(TOOL)


def test_settings_of_pip_become_those_of_uv():
    listed = """
:env:.find-links='/a /b'
:env:.default-timeout='180'
global.find-links='/c'
global.index-url='https://mirror.example/packages'
user.extra-index-url='file:///one\\nfile:///two'
WARNING: something = else
"""
    assert install.translated(listed) == {
        "UV_FIND_LINKS": "/a,/b",
        "UV_DEFAULT_INDEX": "https://mirror.example/packages",
        "UV_INDEX": "file:///one file:///two",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert install.translated("") == {}


@pytest.mark.parametrize(
    ("system", "machine", "has_wheel"),
    [
        *[("linux", "x86_64", True), ("win32", "AMD64", True), ("darwin", "x86_64", True)],
        *[("darwin", "arm64", True), ("linux", "aarch64", False), ("win32", "ARM64", False)],
    ],
)
def test_constriction_is_asked_for_where_it_has_a_wheel(system, machine, has_wheel):
    """Elsewhere it would be built, which needs Rust; codecs/entropy.py does without it."""
    text = (TOOL.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    (line,) = re.findall(r'^ *"(constriction.*)",', text, re.MULTILINE)
    marker = Requirement(line).marker
    assert marker.evaluate({"sys_platform": system, "platform_machine": machine}) == has_wheel


def test_every_notebook_is_run_with_what_each_documented_line_installs(monkeypatch):
    """tools/try_pythons.py tries a second notebook when the first one fails."""
    monkeypatch.setitem(sys.modules, "install", install)
    try_pythons = load(TOOL.with_name("try_pythons.py"))
    course, *cells = (set(names) for names in try_pythons.ways().values())
    assert course == set().union(*cells) == {p.name for p in NOTEBOOKS.glob("*.ipynb")}
    assert try_pythons.ways()[".[lab,syft]"] == ["09_private_owners.ipynb"]
    commands = []
    monkeypatch.setattr(install, "run", lambda command: commands.append(command))
    assert not try_pythons.run_notebooks(Path("env", "bin", "python"), ["a.ipynb", "b.ipynb"])
    assert [Path(each[-1]).name for each in commands] == ["--no-open", "a.ipynb", "b.ipynb"]


def test_torch_alone_then_the_rest_and_by_pip_where_uv_fails(tmp_path, monkeypatch):
    torch, rest = install.pinned("torch"), ".[lab]"
    commands = run_with(tmp_path, monkeypatch, lambda command: True)
    named = [command[-1] for command in commands if "install" in command]
    assert named == [install.pinned("uv"), torch, rest]
    *_, first, second = run_with(tmp_path, monkeypatch, lambda command: "uv" not in command)
    assert (first[-1], second[-1]) == (torch, rest)
    assert "pip" in first
    assert "uv" not in first + second


def run_with(folder, monkeypatch, succeeds):
    """The commands of `main` in an environment that is there, with pip that has settings."""
    python = install.python_of(folder)
    python.parent.mkdir(parents=True, exist_ok=True)
    python.touch()
    commands = []

    class Done:
        stdout = "global.find-links='/wheels'\n"

        def __init__(self, command):
            self.returncode = 0 if succeeds(command) else 1

    def run(command, **options):
        commands.append(command)
        return Done(command)

    monkeypatch.setattr(install.subprocess, "run", run)
    install.main(folder, ["-e", ".[lab]"])
    return commands


def test_a_heading_begins_a_slide_and_what_is_too_long_goes_below():
    v4 = pytest.importorskip("nbformat").v4
    make_slides = load(TOOL.with_name("make_slides.py"))
    first, last = map(v4.new_markdown_cell, ("# One\nwords\n## Two\nmore", "## References"))
    code = map(v4.new_code_cell, ("x = 1\n" * 30, "y"))
    made = v4.new_notebook(cells=[first, *code, last])
    made.cells[0].source += "\n<details><summary>Solution</summary>\n42\n</details>"
    make_slides.cut_at_headings(made)
    assert [cell.source.split("\n")[0] for cell in made.cells] == [
        *("# One", "## Two", "x = 1", "y", "## References")
    ]
    assert make_slides.kinds(made) == ["slide", "slide", "subslide", "subslide", "skip"]
    assert "42" not in "".join(cell.source for cell in made.cells)
