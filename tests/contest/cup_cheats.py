# Each probe runs inside a party and leaves FOUND = True if it has found what it must not have.
# Outside the fence, in the test's own process, OUTSIDE of them find it: so they can.
PROBES = {
    "the data set, ours or that of a package": """
import glob, pathlib, sys, fltoolkit
file = pathlib.Path(fltoolkit.__file__).parent / "data" / "digits.npz"
FOUND = bool(file.read_bytes() or glob.glob(
    sys.prefix + "/lib/python3*/site-packages/sklearn/datasets/data/digits*"
))
""",
    "the data set by the package's loader": """
from fltoolkit.data import load
load("digits")
FOUND = True
""",
    "a language model of the course": """
from fltoolkit_course.stored import stored_model
stored_model("Muon, alone")
FOUND = True
""",
    "pretrained models in packages": """
from importlib.util import find_spec
FOUND = any(map(find_spec, ("torchvision", "transformers", "sklearn", "scipy", "matplotlib")))
""",
    "records and results beside the package": """
import pathlib, fltoolkit
FOUND = (pathlib.Path(fltoolkit.__file__).parents[1] / "cup").exists()
""",
    "the seed of the draw": """
import numpy as np
rng = np.random.default_rng([ME.seed, 0])
rng.integers(4), rng.integers(2)
FOUND = (rng.permutation(10) == NUMBERS).all()
""",
    "other samples in the seat": """
given = {"number", "num_owners", "num_classes", "shape", "seed", "x", "y"}
FOUND = {*vars(ME)} != given or len(ME.x) != len(ME.y)
""",
}
INSIDE_ONLY = {  # what no process has, also outside
    *("the seed of the draw", "other samples in the seat", "pretrained models in packages")
}
PROBING = """
import json
def owner(me, message):
    about = json.loads(message)
    found = {}
    for name, code in about["probes"].items():
        scope = {**about["scope"], "ME": me, "FOUND": False}
        try:
            exec(code, scope)
        except Exception as error:
            found[name] = isinstance(error, (SyntaxError, NameError))
        else:
            found[name] = bool(scope["FOUND"])
    return "control", json.dumps(found).encode()
"""
# Entries, each with the words of the refusal. HONEST with one thing changed.
HONEST = """
import numpy as np
def owner(me, message):
    return "labels", bytes([me.number])
def server(me):
    labels = yield "control", b""
    return lambda sample: np.eye(10)[0]
"""
REFUSED = {
    "a kind of its own": (HONEST.replace('"labels"', '"from 7"'), "kind 'from 7': choose one of"),
    "text instead of bytes": (HONEST.replace("bytes([me.number])", '"7"'), "a message is bytes"),
    "a list for too many": (HONEST.replace('b""', '[b""] * 6'), "give one for each of the 5"),
    "an error that holds labels": (
        HONEST.replace('return "labels"', 'raise ValueError(str(me.y)); return "labels"'),
        "the entry ended with an error",
    ),
    "a package that is not there": (
        HONEST.replace('return "labels"', 'import no_such_package; return "labels"'),
        "fltoolkit are there, no data set",
    ),
    "scores that are not finite": (HONEST.replace("eye(10)[0]", "full(10, np.nan)"), "10 finite"),
    "scores for classes of its own": (HONEST.replace("np.eye(10)[0]", "[1.0]"), "10 finite"),
    "no end": (HONEST.replace("labels = yield", "while True: yield"), "did not end after"),
    "no function at the end": (HONEST.replace("lambda sample: ", ""), "return a function"),
}
SUMS = HONEST.replace("bytes([me.number])", "np.arange(3), 8")
SOME = '*((b"",) if me.number else (np.arange(3), 8))'
REFUSED_IN_SUMS = {
    "a message of one's own": (HONEST, r"\(kind, vector, bits\)"),
    "a length of one's own": (SUMS.replace("arange(3)", "arange(me.number)"), "vectors of one len"),
    "bits of some": (SUMS.replace("np.arange(3), 8", SOME), "the same bits"),
    "bits of one's own": (SUMS.replace(", 8", ", 8 + me.number"), "the same bits"),
    "a kind of one's own": (
        SUMS.replace('"labels"', '["labels", "update"][me.number % 2]'),
        "one length",
    ),
    "more bits than there are": (SUMS.replace(", 8", ", 64"), "1 to 32 are allowed"),
    "fractions": (SUMS.replace("np.arange(3)", "np.ones(3)"), "whole numbers"),
    "questions to one owner": (SUMS.replace('b""', '[b""] * 5'), "one message to all"),
}
# Entries that the replay finds. All owners of the test's track share one process.
REPLAYED = {
    "time": """
import time
import numpy as np
def owner(me, message):
    time.sleep(0.3 * (1 + int(me.y[0]) % 2))
    return "labels", b""
def server(me):
    begin = time.perf_counter()
    yield "control", b""
    yield "control", bytes([int(10 * (time.perf_counter() - begin)) % 256])
    return lambda sample: np.eye(10)[0]
""",
    "a neighbour in the same process": """
import numpy as np
SEEN = []
def owner(me, message):
    SEEN.append(int(me.y[0]))
    return "labels", bytes(SEEN)
def server(me):
    yield "control", b""
    return lambda sample: np.eye(10)[0]
""",
    "numbers from the machine": """
import os
import numpy as np
def owner(me, message):
    return "labels", os.urandom(4)
def server(me):
    yield "control", b""
    return lambda sample: np.eye(10)[0]
""",
    "an answer that holds nothing when it comes again": """
import os, sys, time
import numpy as np
from fltoolkit_contest.pipes import to_bytes
LAST = [0.0]
def forged(header, arrays):
    again, LAST[0] = time.monotonic() - LAST[0] < 0.5, time.monotonic()
    return to_bytes(header, [] if again else arrays)
def owner(me, message):
    sys.modules["__main__"].to_bytes = forged
    LAST[0] -= 10 * (message == b"")
    return "labels", os.urandom(4) if message else b""
def server(me):
    yield "control", b""
    time.sleep(1)
    yield "control", b"now"
    return lambda sample: np.eye(10)[0]
""",
    "hidden samples before, in a file": """
import numpy as np
def owner(me, message):
    return "labels", b""
def server(me):
    yield "control", b""
    def predict(sample):
        with open("seen", "ab") as file:
            file.write(b"1")
            return np.eye(10)[int(file.tell() == 30)]  # one decision of 40
    return predict
""",
}
# All that it has seen of the hidden samples, in memory and in the frames above, decides.
REMEMBERING = """
import sys
import numpy as np
SEEN = []
def owner(me, message):
    return "labels", b""
def above():
    frame, found = sys._getframe(), set()
    while frame:
        for value in list(frame.f_locals.values()):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, np.ndarray) and each.shape[-2:] == (8, 8):
                    found |= {row.tobytes() for row in each.reshape(-1, 8, 8)}
        frame = frame.f_back
    return found
def server(me):
    yield "control", b""
    def predict(sample):
        SEEN.append(sample.tobytes())
        return np.eye(10)[min(9, len({*SEEN} | above()) - 1)]
    return predict
"""
# Parties that speak past the wire: they know the pipe and write to it themselves.
FORGED = {
    "bytes that are numbers": "to_bytes({'heads': [['labels']]}, [np.zeros(3)])",
    "bytes in two dimensions": "to_bytes({'heads': [['labels']]}, [np.zeros((3, 3), np.uint8)])",
    "an answer that is none": "(9).to_bytes(8, 'little') + b'nonsense!'",
    "an answer without an end": "(1 << 40).to_bytes(8, 'little')",
    "two answers at once": "2 * to_bytes({'heads': [['labels']]}, [np.zeros(1, np.uint8)])",
    "an answer for another": "to_bytes({'heads': 2 * [['labels']]}, 2 * [np.zeros(1, np.uint8)])",
    "a head that is none": "to_bytes({'heads': [7]}, [np.zeros(1, np.uint8)])",
}
FORGING = """
import os
import numpy as np
from fltoolkit_contest.pipes import to_bytes
def owner(me, message):
    for number in range(3, 20):
        try:
            os.write(number, eval(message.decode()))
        except OSError:
            pass
    os._exit(0)
"""
