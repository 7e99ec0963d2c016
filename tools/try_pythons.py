"""Run the quick tests with each Python that pyproject.toml promises: `make pythons`.

    python tools/try_pythons.py                       # each of them, then the lowest versions
    python tools/try_pythons.py 3.12 lowest           # only these two
    python tools/try_pythons.py 3.12 -- tests/core/codecs  # other tests: the rest goes to pytest

`lowest` is the oldest Python with the lowest version of each dependency that pyproject.toml allows.
Interpreters are those on the PATH and of pyenv, and those that uv downloads. Each environment lies
in a temporary folder and is removed before the next one is made. A Python that is not available
is listed at the end; the exit status is 1 if a test failed, or if a named Python was not tried.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import install

ROOT = Path(__file__).resolve().parents[1]
LOWEST = "lowest"
EXTRAS = ".[lab,dev]"
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


def filled(folder: Path, lowest: bool) -> bool:
    """Whether the package could be installed with what its tests need."""
    torch = lowest_torch() if lowest else install.pinned("torch")
    versions = ["--resolution", "lowest-direct"] if lowest else ["-c", "constraints.txt"]
    try:
        install.main(folder, [*versions, "-e", EXTRAS], torch=torch)
    except subprocess.CalledProcessError as error:
        print(f"tools/try_pythons.py: {error}", file=sys.stderr)
        return False
    return True


def tried(name: str, tests: list[str]) -> str:
    """Make the environment, run the tests in it, and remove it: the result, in words."""
    with tempfile.TemporaryDirectory(prefix="fltoolkit-python-") as there:
        folder = Path(there) / "env"
        if not made(promised()[0] if name == LOWEST else name, folder):
            return "not here: uv neither finds nor downloads this Python"
        if not filled(folder, name == LOWEST):
            return "not tried: its packages could not be installed"
        python = install.python_of(folder)
        bin_ = str(python.parent)
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            cwd=ROOT,
            env={**os.environ, "PATH": bin_ + os.pathsep + os.environ["PATH"]},
        )
        return "passed" if done.returncode == 0 else "FAILED"


def main(arguments: list[str]) -> int:
    """Try what is named, or all; print a summary. The exit status."""
    named = arguments[: arguments.index("--")] if "--" in arguments else arguments
    tests = arguments[len(named) + 1 :] or QUICK
    possible = [*promised(), LOWEST]
    if wrong := [name for name in named if name not in possible]:
        print(f"{', '.join(wrong)}: not promised. Choose from {', '.join(possible)}.")
        return 2
    os.chdir(ROOT)
    results = {}
    for name in named or possible:
        print(f"== {name}", flush=True)
        start = time.perf_counter()
        results[name] = tried(name, tests)
        results[name] += f", after {time.perf_counter() - start:.0f} s"
    print("\nPython  result")
    for name, result in results.items():
        print(f"{name:<8}{result}")
    wanted = ("passed",) if named else ("passed", "not here")
    return 0 if all(result.startswith(wanted) for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
