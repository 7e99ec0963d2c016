"""The classic run of 15 epochs: a first one, and each night as far as its goal of 97 % on MNIST.

Every byte is counted; the README's bytes are 15 times those of an epoch.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fltoolkit.history import History

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("FLTOOLKIT_DATA", "nowhere"))
HAS_MNIST = (FOLDER / "mnist" / "train-images-idx3-ubyte.gz").is_file()
pytestmark = pytest.mark.slow


@pytest.mark.skipif(not HAS_MNIST, reason="no MNIST files: set FLTOOLKIT_DATA to their folder")
@pytest.mark.parametrize(
    ("epochs", "goal"), [(1, 0.92), pytest.param(6, 0.97, marks=pytest.mark.nightly)]
)
def test_mnist_reaches_its_goal_with_its_bytes_printed(epochs, goal, tmp_path, monkeypatch, capsys):
    run = ["--data=mnist", f"--epochs={epochs}", "--seeds=1", "--only=vanilla"]
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(tmp_path), *run])
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    printed = capsys.readouterr().out
    history = History.load(tmp_path / "vanilla-0.jsonl")
    assert goal <= history[-1]["accuracy"] < 1
    nbytes = epochs * (60_000 * 640 * 4 + 938 * 12)  # each way
    assert history[-1]["nbytes_up"] == history[-1]["nbytes_down"] == nbytes
    assert len(history) == epochs * 938
    assert f"{nbytes / 1e6:.2f}" in printed
    assert f"{15 * nbytes / epochs / 1e6:.2f}" == "2304.17"  # as the README says


def test_demo_on_digits(tmp_path):
    """In a process of its own, as a reader's."""
    command = [sys.executable, "examples/demo.py", "--epochs=1", "--seeds=1", "--out", tmp_path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 9
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "accuracy_over_bytes.png",
        *("splitfed-0.jsonl", "u_shaped-0.jsonl", "vanilla-0.jsonl"),
    }
