"""Make a virtual environment and install into it: torch first and alone, then the rest.

    python tools/install.py .venv -c constraints.txt -e ".[course]"       # as `make lab`
    python tools/install.py .venv -c constraints.txt -e ".[course,dev]"

The first argument is the folder of the environment; the others go to the installer as they are.
With ``--without-torch`` as the second argument, torch is left out.
The installer is uv, which is put into the environment first; where uv cannot be had, or fails,
pip installs the same. Both read the same settings: uv is told those of pip.

On Linux torch is the build for processors without CUDA, which is a tenth as large, on x86-64 and on
ARM64. For another one set TORCH_BACKEND to what `uv pip install --torch-backend` understands, such
as auto or cu130. Where pip has settings of its own (an index, a folder of wheels), or where uv
cannot reach the builds without CUDA, torch is what the installer finds: on Linux with CUDA.
"""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITHOUT_TORCH = "--without-torch"
PIP_TO_UV = {  # the settings of pip that say where packages are, and what uv calls them
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}


def pinned(name: str) -> str:
    """The line ``name==version`` of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.split(" ;")[0] for line in lines if line.startswith(f"{name}=="))


def python_of(folder: Path) -> Path:
    """The interpreter of the virtual environment in a folder."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def settings_for_uv(pip: list[str]) -> dict[str, str]:
    """The environment by which uv finds packages where pip finds them."""
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True).stdout
    return translated(listed)


def translated(listed: str) -> dict[str, str]:
    """What ``pip config list`` prints, as variables of uv."""
    found: dict[str, str] = {}
    lines = [line for line in listed.splitlines() if "=" in line]
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):  # these win
        key, _, value = line.partition("=")
        variable = PIP_TO_UV.get(key.split(".")[-1])
        if variable:
            separator = "," if variable == "UV_FIND_LINKS" else " "
            found[variable] = separator.join(ast.literal_eval(value).split())
    if "UV_INDEX" in found:  # pip takes the best version of all indexes, uv of the first
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return found


def main(folder: Path, arguments: list[str], torch: str = "") -> None:
    """Install ``torch``, or the pinned one, and what the arguments name; print how long it took."""
    start = time.perf_counter()
    python = python_of(folder)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    if not run([str(python), "-c", "import pip"]):  # an environment that uv or a person has made
        subprocess.run([str(python), "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    first = [torch or pinned("torch")]
    if arguments[0] == WITHOUT_TORCH:
        first, arguments = [], arguments[1:]
    if run([*pip, "install", "-q", pinned("uv")]) and by_uv(python, pip, first, arguments):
        tool = "uv"
    else:
        print("uv cannot do it here: pip tries, which takes some minutes", flush=True)
        for each in filter(None, (first, arguments)):
            subprocess.run([*pip, "install", "-q", *each], check=True)
        tool = "pip"
    print(f"{folder}: installed by {tool} in {time.perf_counter() - start:.0f} s")


def by_uv(python: Path, pip: list[str], torch: list[str], arguments: list[str]) -> bool:
    """Install torch, if it is named, then the rest with uv; whether that went well."""
    own = settings_for_uv(pip)
    env = {**own, **os.environ}
    uv = [str(python), "-m", "uv", "pip", "install", "-q", "--python", str(python)]
    backend = os.environ.get("TORCH_BACKEND", "cpu" if sys.platform == "linux" else "")
    if torch and backend and not own.keys() - {"SSL_CERT_FILE"}:
        run([*uv, "--torch-backend", backend, *torch], env)
    return all(run([*uv, *each], env) for each in filter(None, (torch, arguments)))


def run(command: list[str], env: dict[str, str] | None = None) -> bool:
    """Whether a command succeeds."""
    return subprocess.run(command, env=env).returncode == 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"tools/install.py: {error}")
