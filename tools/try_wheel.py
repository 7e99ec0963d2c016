"""Build what would be released, install it elsewhere, take the first steps with it: `make wheel`.

    python tools/try_wheel.py
    python tools/try_wheel.py --beside    # as `make test`

Into dist/ go the sdist and the wheel that is made from it. The wheel is installed into a fresh
environment in a temporary folder, as `pip install "fltoolkit[course]"` would do it; there, outside
the checkout, the course is copied, notebook 00 is run, and one sweep is run by the command line.
With ``--beside`` the wheel is installed alone, and finds what it needs in the environment of this
Python: that is quicker, and does not see whether all that it needs can be installed. Nor is
notebook 00 run, which other tests run beside the same packages: the wheel has all that they have.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

from install import python_of, settings_for_uv

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
INSTALLED = 'import fltoolkit as f; assert "site-packages" in f.__file__, f.__file__'
TOUR = """
import nbformat, nbclient, fltoolkit
notebook = nbformat.read("course/00_start_here.ipynb", as_version=4)
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
print("notebook 00 has run with fltoolkit", fltoolkit.__version__)
"""
SWEEP = '[{"name": "one pass", "protocol": "split", "rounds": 1, "num_samples": 200}]'


def lacks(wheel: Path) -> list[str]:
    """The files of the packages here, and the notebooks, that a wheel does not hold."""
    packages = [p for top in ROOT.glob("fltoolkit*/") for p in top.rglob("*") if p.is_file()]
    names = [p.relative_to(ROOT).as_posix() for p in packages]
    names = [name for name in names if not re.search(r"/\.|__pycache__", name)]
    names += [f"fltoolkit_course/notebooks/{p.name}" for p in ROOT.glob("notebooks/*.ipynb")]
    with zipfile.ZipFile(wheel) as file:
        return sorted({*names} - {*file.namelist()})


def main(beside: bool) -> None:
    start = time.perf_counter()

    def say(step: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s  {step}", flush=True)

    shutil.rmtree(DIST, ignore_errors=True)
    uv = settings_for_uv([sys.executable, "-m", "pip"])
    build = [sys.executable, "-m", "uv", "build", "-q", "--out-dir", DIST, ROOT]
    subprocess.run(build, check=True, env={**uv, **os.environ})
    (wheel,) = DIST.glob("*.whl")
    say(f"{wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB) and the sdist are built")
    if missing := lacks(wheel):
        sys.exit(f"{wheel.name} lacks {missing}: see [tool.hatch] in pyproject.toml")
    with tempfile.TemporaryDirectory(prefix="fltoolkit-wheel-") as name:
        there = Path(name)

        def run(*command: object) -> None:
            subprocess.run([str(part) for part in command], cwd=there, check=True)

        environment = there / ".venv"
        python = python_of(environment)
        if beside:
            run(sys.executable, "-m", "venv", "--without-pip", environment)
            install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps"]
            run(*install, "--python", python, wheel)
            (folder,) = environment.rglob("site-packages")
            (folder / "beside.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        else:
            install = [sys.executable, ROOT / "tools" / "install.py", environment]
            run(*install, "-c", ROOT / "constraints.txt", f"fltoolkit[course] @ {wheel.as_uri()}")
        say("installed")
        fltoolkit = python.with_name("fltoolkit")
        run(python, "-c", INSTALLED)
        run(fltoolkit, "course", "course", "--no-open")
        if not beside:
            run(python, "-c", TOUR)
            say("notebook 00 was run")
        (there / "one.json").write_text(SWEEP, encoding="utf-8")
        run(fltoolkit, "sweep", "one.json")
        run(fltoolkit, "compare", "one.jsonl")
        say("a sweep was run: all is well")


if __name__ == "__main__":
    main(beside="--beside" in sys.argv[1:])
