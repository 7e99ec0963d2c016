"""One hostile submission for each assignment but the first: its answers try something else.

No answer is right, so that every point would be a point gained by cheating. What gets out of the
fence, and what is wrong with a file, is tried with assignment 1 (hostile.py).

All these assignments are one notebook here, so that one kernel, which imports torch, makes all
expected outputs and another one runs all right answers. test_master.py plays each one alone.
"""

from hostile import Case, Desk, saved
from playing import NUMBERS, master_of

from fltoolkit_grading import Master

_ALWAYS_EQUAL = """
class Always(str):
    __eq__ = __ge__ = __le__ = lambda a, b: True
    __ne__ = lambda a, b: False
    __hash__ = str.__hash__
"""

# answers by the id of the cell, and what status or notes say of them
TRIED: dict[int, tuple[dict[str, str], tuple[str, ...]]] = {
    2: (
        {
            "a2-gate": f"""{_ALWAYS_EQUAL}
class Gate:
    def __init__(self, threshold):
        self.threshold = threshold
    def check(self, loss):
        return Always("A")
""",
            "a2-bill": "def bill(states, *sizes):\n    print('9' * 3_000_000)\n    return 0",
        },
        ("flood of output", "worth a look: comparison"),
    ),
    3: (
        {
            "a3-mean": "def weighted_mean(u, sizes):\n"
            "    return {k: v * float('nan') for k, v in u[0].items()}",
            "a3-local": "def local_update(model, *more):\n    return local_update(model, *more)",
            "a3-arrivals": """
import itertools
def arrivals(seconds, wait_for):
    return itertools.repeat("school_0")
""",
        },
        (),
    ),
    4: (
        {
            # the message is a name, and the tensor stays in the same process
            "a4-encode": """
kept = {}
def encode(x):
    kept[len(kept)] = x.clone()
    return bytes([len(kept)]) * (8 + x.numel())
""",
            "a4-decode": """
def decode(message, shape):
    return kept.get(message[0] - 1, list(kept.values())[-1])
""",
        },
        (),
    ),
    5: (
        {
            "a5-top-k": """
def top_k(x, k):
    global fingerprint
    fingerprint = lambda value: "1.0"
    torch.Tensor.abs = torch.Tensor.topk = lambda x, *a: x
    return x.mul_(0)
""",
            "a5-memory": """
import threading, time
def spam():
    while True:
        print("client 0 1.0")
        time.sleep(0.001)
class Memory:
    def __init__(self, k):
        threading.Thread(target=spam, daemon=True).start()
    def send(self, client, update):
        return update
""",
        },
        (),
    ),
    6: (
        {
            # whoever hides nothing has the right sum
            "a6-hide": "def hide(u, numbers, masks, bits):\n"
            "    for mask in masks.values():\n        mask[:] = 0\n    return numbers % 2**bits",
            "a6-bits": """
class Number(int):
    __int__ = __index__ = __format__ = lambda self, *a: __import__("random").randrange(99)
def bits_of_sum(num_clients, bits):
    return Number(7)
def nbytes_masked(*a):
    return float("nan")
""",
        },
        (),
    ),
    7: (
        {
            "a7-windows": """
class Liar:
    shape = (20, 5)
    def __getattr__(self, name):
        return lambda *a, **k: self
def windows(ids, context):
    ids.zero_()
    return Liar(), Liar()
""",
            "a7-nats": "import torch\ndef nats(log_probs, y):\n"
            "    torch.set_default_dtype(torch.float16)\n    return complex(1, 2)",
            "a7-worth": "class Advice(str):\n    def __str__(self):\n"
            "        return 'stay alone, ' * 43\ndef worth(*a):\n    return Advice()",
        },
        (),
    ),
    8: (
        {
            "a8-shrink": """
import builtins
_print = builtins.print
def shrink(x, bits):
    builtins.print = lambda *a, **k: [_print(*a, **k) for _ in range(2)]
    return (x * 2**bits).long()
""",
            "a8-data-nbytes": "def data_nbytes(*a):\n    return input('how many?')",
        },
        ("worth a look: built-in",),
    ),
}


def together() -> Master:
    cells = [cell for number in NUMBERS[1:] for cell in master_of(number).cells]
    return Master("together", {**master_of(2).notebook, "cells": cells}, "")


def _right(desk: Desk) -> bytes:
    first = next(iter(desk.solutions))
    plots = f"%matplotlib inline\nfrom fltoolkit import plots\n{desk.solutions[first]}"
    written = dict.fromkeys(desk.master.ids("question"), "My reasons.")
    return saved(desk.notebook(desk.solutions | written | {first: plots}))


def _tried(*numbers: int) -> Case:
    """Answers that change nothing around them can share a notebook."""
    answers = {name: source for n in numbers for name, source in TRIED[n][0].items()}
    named = tuple(words for n in numbers for words in TRIED[n][1])
    return Case(lambda desk: saved(desk.notebook(answers)), 0, named)


OTHERS = {
    "right": Case(_right, 77, ("graded",)),
    "tried_in_2_4_6_7": _tried(2, 4, 6, 7),
    **{f"tried_in_{number}": _tried(number) for number in (3, 5, 8)},
}
