"""Forged messages, to every codec, under a limit of memory: see tools/fuzz.py.

The same ones each time, for a few seconds; GitHub tries five minutes of them each night.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = os.environ.get("FLTOOLKIT_FUZZ_SECONDS", "3")
SCRIPT = Path(__file__).parents[1] / "tools" / "fuzz.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and /proc are Linux's")
def test_forged_messages():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", SECONDS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    tries, errors, trees, large = (
        int(re.search(rf"{what} ([\d,]+)", done.stdout)[1].replace(",", ""))
        for what in ("tries", "WireError", "tree", "than a million values")
    )
    assert tries == errors + trees
    assert errors > 10 < trees
    assert large > 3  # some decodings come near the limit of memory
