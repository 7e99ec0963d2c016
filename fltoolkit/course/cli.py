"""``fltoolkit course FOLDER``: copy the notebooks of the course into a folder, and open them.

Here: the copies, which have no outputs, because outputs would show the answers before the reader
has guessed, and the start of JupyterLab. Not here: the notebooks. They are beside this file in an
installed package, and in notebooks/ in the repository. This file needs nothing but Python, because
tools/make_edition.py runs it where the package is not installed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["copy_notebooks", "main", "shipped", "without_outputs"]

FIRST = "00_start_here.ipynb"
PAGES = "https://github.com/fltoolkit/fltoolkit/blob/main/docs/"

EXAMPLES = """examples:
  fltoolkit course my-course                open the course in JupyterLab, in the folder my-course
  fltoolkit course my-course --no-browser   the same on another machine: prints the address to open
  fltoolkit course my-course --no-open      only copy the notebooks
To go on another day, give the same command again: notebooks that you have changed are kept."""


def shipped() -> Path:
    """The folder with the notebooks of this package.

    >>> (shipped() / FIRST).exists()
    True
    """
    installed = Path(__file__).parent / "notebooks"
    checkout = Path(__file__).parents[2] / "notebooks"
    found = next((folder for folder in (installed, checkout) if (folder / FIRST).exists()), None)
    if found is None:
        raise FileNotFoundError(
            f"no notebooks in {installed} nor in {checkout}: this installation is not complete. "
            'Run pip install --force-reinstall --no-deps "fltoolkit[lab]"'
        )
    return found


def without_outputs(notebook: str) -> str:
    """A notebook's text with the outputs and counts of its code cells removed; ids are kept.

    >>> cell = {"cell_type": "code", "source": "2 + 2", "outputs": ["4"], "execution_count": 1}
    >>> json.loads(without_outputs(json.dumps({"cells": [cell]})))["cells"][0]["outputs"]
    []
    """
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def copy_notebooks(folder: str | Path) -> tuple[list[str], list[str]]:
    """Copy the course's notebooks into a folder; a file that is there already is never changed.

    Notebooks are copied without outputs. Two notebooks are compared by their cells only, so a
    notebook that was run and not edited does not count as different.

    Args:
        folder: where the copies go; it is made if it does not exist.

    Returns:
        The names of the files that were copied now, and the names of those that were there already
        and differ from this package's: the reader has changed them, or they are of another version.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> copied, kept = copy_notebooks(folder)
    >>> "00_start_here.ipynb" in copied, kept
    (True, [])
    >>> copy_notebooks(folder)  # nothing is new, and nothing is changed
    ([], [])
    """
    source, folder = shipped(), Path(folder)
    paths = [*source.glob("*.ipynb"), *source.glob("colab/*.*")]
    copied, kept = [], []
    for path in sorted(paths):
        name = path.relative_to(source).as_posix()
        text = path.read_text(encoding="utf-8").replace("](../docs/", f"]({PAGES}")
        content = without_outputs(text) if path.suffix == ".ipynb" else text
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(target, "x", encoding="utf-8", newline="\n") as file:
                file.write(content)
            copied.append(name)
        except FileExistsError:
            if not _same_cells(target, content):
                kept.append(name)
    return copied, kept


def _same_cells(target: Path, content: str) -> bool:
    """Whether a file holds this text, or a notebook with the same cells."""
    try:
        mine = target.read_text(encoding="utf-8")
        return mine == content or _sources(json.loads(mine)) == _sources(json.loads(content))
    except (OSError, ValueError, TypeError, KeyError):  # no file, or no notebook any more
        return False


def _sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


def main(arguments: Sequence[str]) -> int:
    """Copy the notebooks, print what was kept, and open JupyterLab; returns its exit status.

    >>> import contextlib
    >>> import tempfile
    >>> with contextlib.redirect_stdout(None):  # it would print the name of the folder
    ...     status = main([tempfile.mkdtemp(), "--no-open"])
    >>> status
    0
    """
    parser = argparse.ArgumentParser(
        prog="fltoolkit course",
        description="Put the notebooks of the course into a folder of your own and open them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="your folder; made if it is not there")
    parser.add_argument("--no-open", action="store_true", help="do not start JupyterLab")
    parser.add_argument("--no-browser", action="store_true", help="start it, but no browser")
    args = parser.parse_args(arguments)
    copied, kept = copy_notebooks(args.folder)
    print(f"{args.folder}: {len(copied)} files copied")
    for name in kept:
        print(f"  {name}: yours differs and is kept; to get the new one, rename or delete yours")
    lab = [sys.executable, "-m", "jupyter", "lab", FIRST]
    if args.no_open:
        print(f"To open: cd {args.folder}, then jupyter lab {FIRST}")
        return 0
    if not find_spec("jupyterlab"):
        raise ImportError('JupyterLab is missing: pip install "fltoolkit[lab]"')
    lab += ["--no-browser"] if args.no_browser else []
    lab += ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return subprocess.call(lab, cwd=args.folder)
