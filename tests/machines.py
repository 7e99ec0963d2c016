"""Other processors, emulated: which instructions numpy, torch, MKL, oneDNN and OpenBLAS may use.

    make other-machines      # or: python tests/machines.py
    make oldest-machine      # or: python tests/machines.py SSE

runs the tests marked `machines` as each of them, or as those that are named, in a process of its
own. Other words go to pytest.
Not here: ARM64, which no variable can emulate.
"""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
# as numpy calls them; those of version 2.4 are groups, and a name that a version lacks is ignored
AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
AVX2 = "AVX2 FMA3 X86_V3"
OLDER = "SSSE3 SSE41 POPCNT SSE42 AVX F16C FMA4 XOP"
MACHINES = {
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",  # also on AMD, where MKL ignores the next one
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": AVX512,
    },
    "SSE": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": f"{AVX512} {AVX2}",
    },
}
LEVELS = ["DEFAULT", "AVX2", "AVX512"]  # as torch calls them
NUMPY_MAY = {"DEFAULT": OLDER.split(), "AVX2": [*OLDER.split(), *AVX2.split()]}


def possible() -> list[str]:
    """The machines that this processor can play: those with no more instructions than it has."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    level = torch.backends.cpu.get_cpu_capability()
    here = LEVELS.index(level) if level in LEVELS else -1
    return [
        name
        for name, variables in MACHINES.items()
        if LEVELS.index(variables["ATEN_CPU_CAPABILITY"].upper()) <= here
    ]


def used_in_spite() -> list[str]:
    """What this process uses although it plays a machine without: an emulation that does nothing.

    For instance, numpy 2.4 has other names for its features than 2.3, and ignores the old ones.
    """
    level = os.environ.get("ATEN_CPU_CAPABILITY", "").upper()
    if level not in NUMPY_MAY:
        return []
    torch_has = torch.backends.cpu.get_cpu_capability()
    core = getattr(np, "_core", None) or np.core  # the second one before numpy 2
    told, on = core._multiarray_umath, core._multiarray_umath.__cpu_features__
    numpy_has = {name for name in told.__cpu_dispatch__ if on[name]} - {*NUMPY_MAY[level]}
    return [f"torch: {torch_has}"] * (torch_has != level) + [f"numpy: {n}" for n in numpy_has]


def marked_files() -> list[str]:
    """The files with tests marked `machines`; to collect all others would take longest."""
    mark = re.compile(r"mark\.machines\b")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path) for path in files if mark.search(path.read_text(encoding="utf-8"))]


def main() -> int:
    words, worst = sys.argv[1:], 0
    asked = [word for word in words if word in MACHINES] or [*MACHINES]
    for name in {*asked} - {*possible()}:
        print(f"{name}: not here, this processor cannot play it", flush=True)
    for name in [name for name in asked if name in possible()]:
        print(f"{name}: {' '.join(f'{k}={v!r}' for k, v in MACHINES[name].items())}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "no:nbval", "-m", "machines"]
        done = subprocess.run(
            [*command, *marked_files(), *(word for word in words if word not in MACHINES)],
            cwd=ROOT,
            env={**os.environ, **MACHINES[name]},
            check=False,
        )
        worst = worst or done.returncode
    return worst


if __name__ == "__main__":
    sys.exit(main())
