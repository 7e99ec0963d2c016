"""The files of the repository, and pages whose code runs: each text block is what was printed."""

import contextlib
import importlib.util
import os
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ACCURACY = re.compile(r"\d+\.\d(?= % \(| to \d+\.\d\)|\)  )")  # in "92.0 % (90.6 to 92.8)  "


def files_of_the_repository(*patterns):
    """Paths, relative to the checkout, of tracked and of new files; of all without git history."""
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = None
    with contextlib.suppress(FileNotFoundError):
        done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    found = done.stdout.split("\0") if done and done.returncode == 0 else _not_ignored()
    names = {name for name in found if (ROOT / name).is_file()}
    return sorted(n for n in names if any(fnmatch(n, pattern) for pattern in patterns or ["*"]))


def _not_ignored():
    """What .gitignore does not name: its lines are names, some with a star."""
    ignored = [".git", *(ROOT / ".gitignore").read_text().replace("/\n", "\n").split()]
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [n for n in folders if not any(fnmatch(n, line) for line in ignored)]
        for name in files:
            if not any(fnmatch(name, line) for line in ignored):
                yield (Path(folder) / name).relative_to(ROOT).as_posix()


def load(path):
    """A file that stands in no package, such as one of tools/, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_page(name, capsys, images=None):
    """Run the Python blocks of docs/NAME.md and compare; returns how many texts were compared.

    With ``images``, an accuracy of so many test images (see `ACCURACY`) may differ by one of them,
    as the page then says. All else must be equal, to the letter.
    """
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    page: dict = {"__name__": f"docs_{name}"}
    compared = 0
    for kind, block in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if kind == "python":
            exec(block, page)
        else:
            printed = capsys.readouterr().out
            if images:
                printed = with_accuracies_of(block, printed, 100 / images)
            assert printed == block
            compared += 1
    assert capsys.readouterr().out == "", "something printed is not on the page"
    return compared


def with_accuracies_of(block, printed, image):
    """What was printed, with the page's accuracies in place of those that are one image off."""
    wanted = iter(ACCURACY.findall(block))

    def chosen(found):
        old = next(wanted, "")  # both were rounded to 0.1
        return old if old and abs(float(old) - float(found[0])) <= image + 0.1 else found[0]

    return ACCURACY.sub(chosen, printed)
