"""Run the quick tests with each Python that pyproject.toml promises: `make pythons`.

    python tools/try_pythons.py                       # each of them, then the lowest versions
    python tools/try_pythons.py 3.12 lowest           # only these two; or the path of a Python
    python tools/try_pythons.py 3.12 -- tests/core/codecs  # other tests: the rest goes to pytest
    python tools/try_pythons.py 3.10 3.13 -- --notebooks   # every notebook as users install it

With `--notebooks` no test runs: each documented line of installing gets an environment with what it
names and no more, and there each notebook runs for which it is meant (`ways`).
`lowest` is the oldest Python with the lowest version of each dependency that pyproject.toml allows.
Interpreters are those on the PATH and of pyenv, and those that uv downloads. Each environment lies
in a temporary folder and is removed before the next one is made. A Python that is not available
is listed at the end; the exit status is 1 if a test failed, or if a named Python was not tried.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import install

ROOT = Path(__file__).resolve().parents[1]
LOWEST = "lowest"
EXTRAS = ".[course,dev]"
NOTEBOOKS = ["--notebooks"]
COLAB_HAS = ["ipykernel", "nbclient", "psutil"]  # and tools/run_notebooks.py needs
QUICK = ["-m", "not browser and not slow and not solutions", "-n", "2"]
QUICK += ["--dist", "worksteal", "-p", "no:nbval"]


def promised() -> list[str]:
    """The versions of Python in the classifiers of pyproject.toml, the oldest first."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def lowest_torch() -> str:
    """The lowest torch that pyproject.toml allows, as ``torch==2.2``."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return "torch==" + re.search(r'"torch>=([\d.]+)"', text)[1]


def search_path() -> str:
    """The PATH, with the versions of pyenv at its end, where uv does not look for them."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return os.pathsep.join([os.environ.get("PATH", ""), *map(str, sorted(pyenv.glob("3.*/bin")))])


def made(version: str, folder: Path) -> bool:
    """Whether uv could make an environment with this version of Python."""
    uv = [sys.executable, "-m", "uv", "venv", "-q", "--seed", "--python", version, str(folder)]
    return install.run(uv, {**os.environ, "PATH": search_path()})


def ways() -> dict[str, list[str]]:
    """What is installed, and the notebooks for which it is meant.

    README, `make lab` and Binder name one extra for all; a notebook's cell for Colab names its own.
    """
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    found = {".[course]": [path.name for path in paths]}
    for path in paths:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        cell = next("".join(each["source"]) for each in cells if each["cell_type"] == "code")
        found.setdefault("." + re.search(r"fltoolkit(\S*) @", cell)[1], []).append(path.name)
    return found


def run_notebooks(python: Path, names: list[str]) -> bool:
    """Whether they all run in copies, as `fltoolkit course` makes them; each is tried."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python.with_name("fltoolkit")), "course", folder, "--no-open"]
        run = [str(python), str(ROOT / "tools" / "run_notebooks.py"), "--time"]
        done = [install.run(each) for each in [command, *([*run, f"{folder}/{n}"] for n in names)]]
        return all(done)


def run_tests(python: Path, tests: list[str]) -> bool:
    """Whether the tests pass; the environment's programs are found before others."""
    path = str(python.parent) + os.pathsep + os.environ["PATH"]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    return install.run(command, {**os.environ, "PATH": path})


def filled(folder: Path, lowest: bool, what: list[str]) -> bool:
    """Whether the package could be installed with what is needed."""
    torch = lowest_torch() if lowest else install.pinned("torch")
    versions = ["--resolution", "lowest-direct"] if lowest else ["-c", "constraints.txt"]
    try:
        install.main(folder, [*versions, *what], torch=torch)
    except subprocess.CalledProcessError as error:
        print(f"tools/try_pythons.py: {error}", file=sys.stderr)
        return False
    return True


def tried(name: str, what: list[str], works: Callable[[Path], bool]) -> str:
    """Make the environment, see whether it works, and remove it: the result, in words."""
    with tempfile.TemporaryDirectory(prefix="fltoolkit-python-") as there:
        folder = Path(there) / "env"
        if not made(promised()[0] if name == LOWEST else name, folder):
            return "not here: uv neither finds nor downloads this Python"
        if not filled(folder, name == LOWEST, what):
            return "not tried: its packages could not be installed"
        return "passed" if works(install.python_of(folder)) else "FAILED"


def main(arguments: list[str]) -> int:
    """Try what is named, or all; print a summary. The exit status."""
    named = arguments[: arguments.index("--")] if "--" in arguments else arguments
    tests = arguments[len(named) + 1 :] or QUICK
    possible = [*promised(), LOWEST]
    if wrong := [n for n in named if n not in possible and not Path(n).is_file()]:
        print(f"{', '.join(wrong)}: not promised. Choose from {', '.join(possible)}, or a path.")
        return 2
    named = [str(Path(n).absolute()) if Path(n).is_file() else n for n in named]
    jobs: dict[str, tuple[list[str], Callable[[Path], bool]]]
    jobs = {"": (["-e", EXTRAS], partial(run_tests, tests=tests))}
    if tests == NOTEBOOKS:
        jobs = {w: ([w, *COLAB_HAS], partial(run_notebooks, names=n)) for w, n in ways().items()}
    os.chdir(ROOT)
    results = {}
    for name, (way, job) in product(named or possible, jobs.items()):
        print(f"== {name} {way}", flush=True)
        start = time.perf_counter()
        result = tried(name, *job)
        results[f"{name} {way}"] = f"{result}, after {time.perf_counter() - start:.0f} s"
    print()
    for name, result in results.items():
        print(f"{name}: {result}")
    wanted = ("passed",) if named else ("passed", "not here")
    return 0 if all(result.startswith(wanted) for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
