"""Each line of set-up on a page is run as it stands, in an empty folder.

Two things are put in place of what would be downloaded: this checkout for the repository, as an
archive without git history and as a clone, and empty packages for all that fltoolkit needs. `make`
prints what it would run. `make wheel` installs the real packages and takes the first steps.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from itertools import groupby
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from pages import ROOT, files_of_the_repository
from uv import find_uv_bin

HOME = "https://github.com/fltoolkit/fltoolkit"
TEXTS = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", *files_of_the_repository("docs/*.md", "examples/*.md"))
}
SET_UP = re.compile(
    r"(git clone|make|(\S*/)?pip install|(\S*/)?uv (pip|venv)|python3? -m venv|fltoolkit course)\b"
    r"|\S+/fltoolkit course "
)


def lines_of(text: str) -> list[str]:
    """The lines of set-up of a page: in blocks that are no program, and between backquotes."""
    fence = re.compile(r"^```(?:sh|bash)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
    inline = re.compile(r"(?<!`)`([^`]+)`(?!`)")
    found = []
    for block in fence.findall(text):
        found += [line.split(" #")[0].strip() for line in block.replace("\\\n", " ").splitlines()]
    for words in inline.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        found.append(" ".join(words.split()))
    found = [line for line in dict.fromkeys(found) if SET_UP.match(line) and "FOLDER" not in line]
    return [line for line in found if line not in ("git clone", "fltoolkit course")]


PAGES = {name: lines for name, text in TEXTS.items() if (lines := lines_of(text))}


def notebooks() -> list[str]:
    """The lines of the notebooks' first cells, which Colab runs."""
    found = []
    for name in files_of_the_repository("notebooks/*.ipynb"):
        cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        found += re.findall(r"^ *%(pip install .*)", text, re.MULTILINE)
    return sorted(set(found))


def requirements() -> list[Requirement]:
    """What the package and the lines of set-up ask for, except fltoolkit itself."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text[text.index("\ndependencies = [") : text.index("[project.scripts]")]
    words = re.findall(r'"((?:[^"\\]|\\.)+)"', re.sub(r"#.*", "", block))
    for line in [line for lines in PAGES.values() for line in lines if "pip install" in line]:
        words += [word for word in shlex.split(line.partition("install")[2]) if "[" not in word]
        words += [word for word in shlex.split(line) if word.startswith("flwr")]
    leave = re.compile(r"fltoolkit|-|\.|cpu$|course-env$|uv$")
    return [Requirement(word) for word in words if not leave.match(word)]


def write_wheel(folder: Path, name: str, version: str, extras: set[str], script: str = "") -> None:
    """An empty package; pip and uv see no difference before something is imported."""
    plain = re.sub(r"[-_.]+", "_", name)
    info = f"{plain}-{version}.dist-info"
    provides = "".join(f"Provides-Extra: {extra}\n" for extra in sorted(extras))
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{provides}"
    with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", about)
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        if script:
            entry = zipfile.ZipInfo(f"{plain}-{version}.data/scripts/{name}")
            entry.external_attr = 0o100755 << 16  # a file that can be run
            file.writestr(entry, script)
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """What lies beyond this machine for a reader: the repository and the packages."""
    there = tmp_path_factory.mktemp("out side")
    copy, packages = there / "fltoolkit", there / "packages"
    packages.mkdir()
    for name in files_of_the_repository():
        if not name.startswith(("tests/", "docs/images", "experiments/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    archive = shutil.make_archive(there / "main", "zip", there, "fltoolkit")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(copy)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    download = [sys.executable, "-m", "pip", "download", "-q", "-d", packages]
    subprocess.run([*download, "hatchling", "editables"], check=True)
    wanted = sorted(requirements(), key=lambda each: each.name)
    for name, group in groupby(wanted, key=lambda each: each.name):
        same = list(group)
        lowest = [s.version for r in same for s in r.specifier if s.operator in (">=", "==")]
        version = str(max(map(Version, lowest), default=Version("1")))
        write_wheel(packages, name, version, {extra for each in same for extra in each.extras})
    # the program itself: `python -m uv` would find the environment of the tests by itself
    uv = f'#!/bin/sh\nexec "{find_uv_bin()}" "$@"\n'
    write_wheel(packages, "uv", "99", set(), uv)
    return there, Path(archive).as_uri(), packages.as_uri()


# settings of this machine that a reader lacks; unbuffered, lines of two programs keep their order
LEFT_OUT = ("PIP_", "UV_", "VIRTUAL_", "PYTHONUNBUFFERED")
JUPYTER = "import os, sys; print(os.path.basename(os.getcwd()), *sys.argv[1:3])\n"


def run(lines, folder, outside, path):
    """Run lines of a page in a folder; what they print."""
    there, archive, packages = outside
    (there / "jupyter.py").write_text(JUPYTER)
    site = next(p for p in sys.path if p.endswith("site-packages"))
    script = ["set -ex"]
    for line in lines:
        line = line.replace(f"{HOME}/archive/main.zip", archive)
        # the real packages, and no window; the package itself is the one that was installed
        imports = f"PYTHONPATH={shlex.quote(f'{there}:{site}')} "
        script.append(imports + line if "fltoolkit course" in line else line)
    env = {k: v for k, v in os.environ.items() if not k.startswith(LEFT_OUT)}
    env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": packages, "PIP_CONFIG_FILE": os.devnull}
    env |= {"UV_NO_INDEX": "1", "UV_FIND_LINKS": packages, "UV_OFFLINE": "1"}
    env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": HOME}
    env |= {"GIT_CONFIG_KEY_0": f"url.{(there / 'fltoolkit').as_uri()}.insteadOf"}
    env |= {"MAKEFLAGS": "n", "PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, "\n".join([*script, done.stdout, done.stderr])
    return done.stdout


needed = pytest.mark.skipif(sys.platform == "win32", reason="the lines are for bash")


@needed
@pytest.mark.slow
def test_what_a_student_types(tmp_path, outside):
    """Nothing is there before: neither uv nor an environment nor the repository."""
    lines = PAGES["docs/for_students.md"]
    assert len(lines) == 5, lines
    folder = tmp_path / "my documents"
    folder.mkdir()
    plain = Path(sys.executable).resolve().parent
    printed = run(lines, folder, outside, plain)
    assert "my-course lab 00_start_here.ipynb" in printed
    assert (folder / "my-course" / "01_vanilla_splitnn.ipynb").exists()


# else pip makes an environment for each build; to it, "no isolation: 0" means none
IN_THIS_ENVIRONMENT = ["pip install -q hatchling editables", "export PIP_NO_BUILD_ISOLATION=0"]


@needed
@pytest.mark.slow
@pytest.mark.nightly
def test_lines_of_all_other_places(tmp_path, outside):
    """In an environment of the reader's own and in a clone; a wheel for those without address."""
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", outside[0] / "packages"]
    subprocess.run([*build, f"fltoolkit @ {outside[1]}"], check=True)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    lines = [line for name, each in PAGES.items() if "for_students" not in name for line in each]
    assert len(notebooks()) >= 3
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    container = [c for c in settings["postCreateCommand"].split(" && ") if "apt-get" not in c]
    lines = [*PAGES["README.md"], *IN_THIS_ENVIRONMENT, *lines, *container, *notebooks()]
    run(dict.fromkeys(lines), tmp_path, outside, tmp_path / "env/bin")
