"""Linux on ARM64, emulated: are messages written and decoded there to the same bits as here?

    python tools/try_arm64.py FOLDER            # messages of all codecs: some minutes, 1 GB
    python tools/try_arm64.py FOLDER --tests    # then the tests of `TESTS`: half an hour and more

This machine is Debian 12 on x86-64. FOLDER gets an emulator (qemu, which needs no root and runs one
process at a time), Debian's Python for arm64 and the wheels for aarch64; a second run finds them
there. apt-get must know of arm64: as root, `dpkg --add-architecture arm64 && apt-get update`. The
tests of compiled loops need gcc-aarch64-linux-gnu here; vectors of 16, 8 and 4 values are tried.

On this machine every codec of tests/every_codec.py writes three messages, one after the other, with
its memory in between. The emulated machine decodes them, and writes its own from the same
values. Values come from whole-number formulas, so that no random numbers and no power are in them.
constriction has no wheel there: `Entropy` takes its plain range coder.

Decoded bits must be the same. Written messages need not be: matrix kernels of encoders (rotations,
low rank, the prediction of `Entropy`) may round otherwise, and a message says all that its receiver
needs. The exit status is 0 if all bits are the same and all tests pass.

torch there is 2.5.1: the wheel of 2.13 on PyPI brings CUDA and crashes in the emulator.
"""

import copy
import datetime
import hashlib
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = [
    *("python3.11", "python3.11-minimal", "libpython3.11-stdlib", "libpython3.11-minimal"),
    *("libc6", "libexpat1", "zlib1g", "libgcc-s1", "libstdc++6", "libgomp1", "libbz2-1.0"),
    *("liblzma5", "libffi8", "libssl3", "libsqlite3-0", "libuuid1", "libcrypt1"),
]
WHEELS = [
    *("torch==2.5.1", "numpy<2.3", "xxhash", "threadpoolctl", "pooch", "matplotlib"),
    "lazy-loader",  # so far what the package needs
    *("zstandard", "beartype", "hypothesis", "jaxtyping", "pyyaml", "pytest"),
]
TESTS = {  # file: which of its tests
    "tests/research/codecs/test_compiled.py": "",
    "tests/core/test_wire.py": "",
    "tests/core/codecs/test_entropy.py": "",
    "tests/research/codecs/test_difference.py": "",
    "tests/test_stored.py": "message or answer or each_codec",
}


def main(folder: Path, tests: bool) -> int:
    here, there = [sys.executable], set_up(folder)
    given, found = folder / "here.json", folder / "there.json"
    this = [str(Path(__file__).resolve()), "--messages"]
    for python, words in ((here, [given]), (there, [given, found])):
        subprocess.run([*python, *this, *map(str, words)], cwd=ROOT, check=True)
    same = compare(*(json.loads(path.read_text()) for path in (given, found)))
    for name, chosen in TESTS.items() if tests else ():
        print(f"\n{name} {chosen}", flush=True)
        pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", name, "-k", chosen]
        done = subprocess.run([*there, *pytest], cwd=ROOT)
        same = same and done.returncode == 0
    return 0 if same else 1


def set_up(folder: Path) -> list[str]:
    """The command that runs the emulated Python, after fetching what is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    root, site = folder / "root", folder / "site"
    if not (root / "usr/bin/python3.11").exists():
        (debs := folder / "debs").mkdir(exist_ok=True)
        packages = ["qemu-user-static", *(f"{name}:arm64" for name in DEBIAN)]
        subprocess.run(["apt-get", "download", "-q", *packages], cwd=debs, check=True)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(deb), str(root)], check=True)
    if not (site / "torch").exists():
        uv = [sys.executable, "-m", "uv", "pip", "install", "-q", "--only-binary", ":all:"]
        target = ["--python-platform", "aarch64-manylinux_2_28", "--python-version", "3.11"]
        subprocess.run([*uv, *target, "--target", str(site), *WHEELS], check=True)
    variables = {
        "LD_LIBRARY_PATH": root / "usr/lib/aarch64-linux-gnu",
        "PYTHONPATH": f"{site}:{ROOT}:{ROOT / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "CC": "aarch64-linux-gnu-gcc",  # this machine's, which runs without the emulator
    }
    set_variables = [word for name in variables for word in ("-E", f"{name}={variables[name]}")]
    emulator = str(root / "usr/bin/qemu-aarch64-static")
    return [emulator, "-L", str(root), *set_variables, str(root / "usr/bin/python3.11")]


def messages(written: Path, own: Path | None = None) -> None:
    """Write messages, and decode them or, with a second file, those in the first."""
    sys.path.insert(0, str(ROOT / "tests"))
    import numpy as np
    import torch
    from every_codec import CODECS

    from fltoolkit.codecs import Entropy

    def tree(number: int) -> dict[str, torch.Tensor]:
        def values(*shape: int) -> torch.Tensor:
            places = torch.arange(int(np.prod(shape))) + 1000 * number
            return ((places * 40_503 % 65_521 - 32_760) / 2.0**15).view(shape)

        w = values(120, 130)
        w[::3] /= 64
        small = {"c": values(9, 5, 7, 2) * 3, "b": values(3001) * values(3001), "one": values(16)}
        return {"w": w, **small, "h": values(777).half()}

    given = json.loads(written.read_text())["messages"] if own else {}
    torch.set_num_threads(1)
    made: dict[str, list[str]] = {}
    digests: dict[str, str] = {}
    for codec in CODECS:
        sender, receiver, digest = copy.deepcopy(codec), copy.deepcopy(codec), hashlib.sha256()
        made[repr(codec)] = [sender.encode(tree(number)).hex() for number in range(3)]
        for message in given.get(repr(codec), made[repr(codec)]):
            for name, tensor in receiver.decode(bytes.fromhex(message)).items():
                digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
                digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        digests[repr(codec)] = digest.hexdigest()
    system = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    system += f", numpy {np.__version__}, range coder: {Entropy().range_coder}"
    result = {"system": system, "messages": made, "decoded": digests}
    (own or written).write_text(json.dumps(result))


def compare(here: dict, there: dict) -> bool:
    """Print what is the same, and what is not; whether all that must be is."""
    codecs = here["messages"]
    print(f"{datetime.date.today():%d %B %Y}\nhere:  {here['system']}\nthere: {there['system']}")
    other = {
        what: [codec for codec in codecs if here[what][codec] != there[what][codec]]
        for what in ("decoded", "messages")
    }
    said = {"decoded": "decode to the same bits", "messages": "write the same bytes"}
    for what, words in said.items():
        print(f"{len(codecs) - len(other[what])} of {len(codecs)} codecs {words}")
        for codec in other[what]:
            print(f"    not {codec}")
    return not other["decoded"]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--messages"]:
        messages(*map(Path, sys.argv[2:]))
    elif len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    else:
        sys.exit(main(Path(sys.argv[1]).resolve(), "--tests" in sys.argv))
