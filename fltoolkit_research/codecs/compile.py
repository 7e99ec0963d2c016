"""Build the compiled loops of this machine: ``python -m fltoolkit_research.codecs.compile``.

compiled.c is compiled with ``cc`` (or what CC names) for this kind of processor, checked against
the plain code, and put into the user's cache, where `fltoolkit.compiled` finds it. Messages that
are read have the same bits as without it.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from fltoolkit import compiled
from fltoolkit.codecs import entropy
from fltoolkit_research.codecs import _lanes, rotate

SOURCE = Path(__file__).with_name("compiled.c")
WIDTHS = {"AVX512": (16, "-mavx512f"), "AVX2": (8, "-mavx2")}  # else 4, as every machine has it
CHECKS = {
    "rotations": rotate.same_bits,
    "lanes of ContextEntropy": _lanes.same_bits,
    "the range coder's reader": entropy.reads_as_plain,
}


def build(path: Path) -> None:
    """Compile into this file. No sum may be fused, and none is put into another order."""
    width, *flags = WIDTHS.get(torch.backends.cpu.get_cpu_capability(), (4,))
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O3", "-ffp-contract=off", *flags]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        out = Path(folder) / path.name
        what = [f"-DW={width}", "-shared", "-fPIC", str(SOURCE), "-o", str(out)]
        subprocess.run([*map(str, command), *what], check=True)
        out.replace(path)  # in one step: other processes may be reading


def main() -> int:
    """Build, check each function, and say so; returns the exit status."""
    path = compiled.place()
    try:
        build(path)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"nothing was built, and the plain code goes on: {error}", file=sys.stderr)
        return 1
    good = [name for name, same in CHECKS.items() if compiled.functions(same)]
    print(f"{path}\nthe same bits as the plain code: {', '.join(good) or 'none'}")
    print("used from now on; delete the file to go back to the plain code")
    return int(len(good) < len(CHECKS))


if __name__ == "__main__":
    sys.exit(main())
