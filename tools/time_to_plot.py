"""How long a new user waits from `git clone` to the first moving plot: `make plot-time`.

    python tools/time_to_plot.py           # with what this machine has downloaded before
    python tools/time_to_plot.py --cold    # everything is downloaded again

What is committed here is cloned into a temporary folder, set up by `make setup-lab`, and
JupyterLab opens notebook 00 in headless Chromium and runs it. Printed are the seconds from the
beginning to the end of each step. Nothing is asserted: it depends on the network and the machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "browser"), str(ROOT / "tools")]

import labserver  # noqa: E402
from install import python_of  # noqa: E402


def main(cold: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="fltoolkit-clone-") as folder:
        env = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
        if cold:
            env |= {"UV_CACHE_DIR": f"{folder}/uv", "PIP_CACHE_DIR": f"{folder}/pip"}
        clone = Path(folder) / "fltoolkit"
        start = time.perf_counter()

        def say(step: str) -> None:
            print(f"{time.perf_counter() - start:6.1f} s  {step}", flush=True)

        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, env=env)
        say("cloned")
        subprocess.run(["make", "-s", "setup-lab"], cwd=clone, check=True, env=env)
        say("set up")
        python = str(python_of(clone / ".venv"))
        with labserver.lab(clone, python=python) as server, labserver.page() as page:
            say("JupyterLab answers")
            notebook = labserver.open_notebook(page, server, "notebooks/00_start_here.ipynb")
            say("notebook 00 is open, its kernel waits")
            sources = [cell["source"] for cell in notebook.cells()]
            data = next(n for n, source in enumerate(sources) if "imshow" in source)
            live = next(n for n, source in enumerate(sources) if "watch(" in source)
            command = "() => jupyterapp.commands.execute('notebook:clear-all-cell-outputs')"
            page.evaluate(command)
            notebook.run_all()
            wait_for_another(notebook, data, [])
            say("first picture")
            shown = wait_for_another(notebook, live, [])
            say("first plot of the training")
            wait_for_another(notebook, live, shown)
            say("it moves")


def wait_for_another(notebook: labserver.Notebook, cell: int, before: Any) -> Any:
    """Wait until a cell shows something other than before; returns that."""
    found: list[Any] = []

    def changed() -> bool:
        found[:] = notebook.outputs(cell)
        return bool(found) and found != before

    labserver.wait_for(notebook.page, changed, seconds=120)
    return list(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cold", action="store_true", help="with empty caches of uv and pip")
    main(parser.parse_args().cold)
