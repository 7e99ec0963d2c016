"""``fltoolkit course FOLDER``: copy the notebooks into a folder, and open the one that comes next.

Here: the copies, which have no outputs, because outputs would show the answers before the reader
has guessed, and the start of JupyterLab. Not here: the notebooks. They are beside this file in an
installed package, and in notebooks/ in the repository. Nor what the reader has done: syllabus.py.
Copying needs nothing but Python, because tools/make_edition.py runs this file where the package is
not installed.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

FIRST = "00_start_here.ipynb"
PAGES = "https://github.com/fltoolkit/fltoolkit/blob/main/docs/"

EXAMPLES = """examples:
  fltoolkit course my-course                open the course in JupyterLab, in the folder my-course
  fltoolkit course my-course --no-browser   the same on another machine: prints the address to open
  fltoolkit course my-course --no-open      only copy the notebooks
To go on another day, give the same command again: it keeps your work, prints what you have done,
and opens the notebook that comes next."""


def shipped() -> Path:
    """The folder with the notebooks of this package."""
    installed = Path(__file__).parent / "notebooks"
    return installed if installed.exists() else Path(__file__).parents[1] / "notebooks"


def without_outputs(notebook: str) -> str:
    """A notebook's text with the outputs and counts of its code cells removed; ids are kept."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def copy_notebooks(folder: str | Path) -> list[str]:
    """Copy the course's notebooks into a folder; a file that is there already is never changed.

    The folder is made if it does not exist. Returns the names of the files that were copied now;
    raises NotADirectoryError if ``folder`` is a file.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder, or one that is to be made")
    copied = []
    for name, content in _editions():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), open(target, "x", encoding="utf-8", newline="\n") as file:
            file.write(content)
            copied.append(name)
    return copied


def _editions() -> list[tuple[str, str]]:
    """The files of the course as they are copied: name in the folder, and text."""
    source, found = shipped(), []
    for path in sorted([*source.glob("*.ipynb"), *source.glob("colab/*.*")]):
        text = path.read_text(encoding="utf-8").replace("](../docs/", f"]({PAGES}")
        content = without_outputs(text) if path.suffix == ".ipynb" else text
        found.append((path.relative_to(source).as_posix(), content))
    return found


def main(arguments: Sequence[str]) -> int:
    """Copy the notebooks, print what was done, and open the next one in JupyterLab.

    Returns the exit status of JupyterLab.
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
    copied = copy_notebooks(args.folder)
    print(f"{args.folder}: {len(copied)} files copied")
    if len(copied) < len(_editions()):
        print(
            "The others stay as they are; for a new copy of one, delete yours and run this again."
        )
    opened = _next(args.folder)
    lab = [sys.executable, "-m", "jupyter", "lab", opened]
    if args.no_open:
        print(f'To open: cd "{args.folder}", then jupyter lab {opened}')
        return 0
    if not find_spec("jupyterlab"):
        raise ImportError('JupyterLab is missing: pip install "fltoolkit[lab]"')
    where = "comes next: open it at the address below" if args.no_browser else "is opened"
    print(f"{opened} {where}", flush=True)  # before JupyterLab prints, also into a pipe
    lab += ["--no-browser"] if args.no_browser else []
    lab += ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    # one thread of each library: the networks are small, and a second one can stall
    return subprocess.call(lab, cwd=args.folder, env={"OMP_NUM_THREADS": "1", **os.environ})


def _next(folder: Path) -> str:
    """Print what was done, of the first path or of the course; the file of the next notebook."""
    from fltoolkit_course.syllabus import next_notebook, path, progress

    table, notebook = path(folder)
    print(table or progress(folder))
    notebook = notebook or next_notebook(folder)
    return next((path.name for path in folder.glob(f"{notebook.file}*.ipynb")), FIRST)
