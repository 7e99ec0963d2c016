"""``fltoolkit course FOLDER``: the notebooks of the course in a folder of one's own, opened.

Here: the copies, and the start of JupyterLab. Not here: the notebooks, which are shipped beside
this file in an installed package and stand in notebooks/ in a checkout.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

__all__ = ["copy_notebooks", "main", "shipped"]

FIRST = "00_start_here.ipynb"
PAGES = "https://github.com/fltoolkit/fltoolkit/blob/main/docs/"

EXAMPLES = """examples:
  fltoolkit course my-course                open the course in JupyterLab, in the folder my-course
  fltoolkit course my-course --no-browser   the same on another machine: prints the address to open
  fltoolkit course my-course --no-open      only copy the notebooks
Say it again to go on another day: notebooks that you have changed stay as you left them."""


def shipped() -> Path:
    """The folder with the notebooks that came with this package."""
    installed = Path(__file__).parent / "notebooks"
    checkout = Path(__file__).parents[2] / "notebooks"
    found = next((folder for folder in (installed, checkout) if (folder / FIRST).exists()), None)
    if found is None:
        raise FileNotFoundError(
            f"no notebooks in {installed} nor in {checkout}: this installation is not whole; say "
            'pip install --force-reinstall --no-deps "fltoolkit[lab]"'
        )
    return found


def copy_notebooks(folder: str | Path) -> tuple[list[str], list[str]]:
    """Copy the course's notebooks into a folder; what is there already is never written to.

    Args:
        folder: where to; it is made if it is not there.

    Returns:
        The names of the files that were copied now, and of those that were there already and
        differ from the ones of this package: changed by their reader, or from another version.
    """
    source, folder = shipped(), Path(folder)
    paths = [*source.glob("*.ipynb"), *source.glob("colab/*.*")]
    copied, kept = [], []
    for path in sorted(paths):
        name = path.relative_to(source).as_posix()
        content = path.read_bytes().replace(b"](../docs/", f"]({PAGES}".encode())
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(target, "xb") as file:
                file.write(content)
            copied.append(name)
        except FileExistsError:
            if not target.is_file() or target.read_bytes() != content:
                kept.append(name)
    return copied, kept


def main(arguments: Sequence[str]) -> int:
    """Copy the notebooks, say what was kept, and open JupyterLab; returns its exit status."""
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
        print(f"  {name}: yours differs and is kept; to get ours, rename or delete yours")
    lab = [sys.executable, "-m", "jupyter", "lab", FIRST]
    if args.no_open:
        print(f"To open: cd {args.folder}, then jupyter lab {FIRST}")
        return 0
    if not find_spec("jupyterlab"):
        raise ImportError('JupyterLab is missing: pip install "fltoolkit[lab]"')
    lab += ["--no-browser"] if args.no_browser else []
    lab += ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return subprocess.call(lab, cwd=args.folder)
