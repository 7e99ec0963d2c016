"""Finds answers that a person should read: suspicious words, and answers that are alike.

Nothing here changes any points.
"""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from fltoolkit_grading.master import Master, release, text_of

_WORD = re.compile(r"\w+|[^\w\s]")


_LOOKS = {
    "the end of the process": r"os\s*\.\s*_exit|os\s*\.\s*abort|os\s*\.\s*kill|sys\s*\.\s*exit",
    "IPython's inside": r"get_ipython|input_transformers|user_ns|\bIn\s*\[|\bOut\s*\[",
    "built-in functions": r"\bbuiltins\b|__builtins__|\bprint\s*=|sys\s*\.\s*(stdout|displayhook)",
    "comparison methods": r"__eq__|__ne__|__bool__",
    "frames and objects of others": r"_getframe|\binspect\b|\bgc\s*\.|sys\s*\.\s*modules|/proc/",
    "C functions": r"\bctypes\b",
    "processes": r"\bsubprocess\b|os\s*\.\s*(fork|system|popen|spawn)|multiprocessing",
    "network": r"\bsocket\b|urllib|requests\b|https?://",
    "pickle": r"\bpickle\b|\bdill\b|__reduce__",
}


def suspicious(source: str) -> list[str]:
    """Kinds of suspicious code in an answer, which a person should read; points do not change.

    Python reads a letter of another style, such as one of full width, as the plain letter; so
    does this function.

    >>> suspicious("import os; os._exit(0)"), suspicious("import os; ｏｓ._𝑒𝑥𝑖𝑡(0)")
    (['the end of the process'], ['the end of the process'])
    """
    source = _as_python_reads(source)
    return [kind for kind, pattern in _LOOKS.items() if re.search(pattern, source)]


def _as_python_reads(source: str) -> str:
    """The text with letters of another style as plain ones, each for itself.

    Normalizing the whole text would take time with the square of a run of combining marks.
    """
    other = {ord(c): unicodedata.normalize("NFKC", c) for c in {*source} if not c.isascii()}
    return source.translate(other)


def alike(
    master: Master, answers: Mapping[str, Mapping[str, str]], least: float = 0.7, words: int = 25
) -> list[tuple[str, str, str, float]]:
    """Pairs of students whose answers have the same words in the same order: names, cell, share.

    ``answers`` has the text of each answer by student and by the id of its cell.

    Sequences of six words are compared. Sequences that also occur in the release, in the master's
    solution or in a third of the class belong to the task and are left out. An answer must have
    ``words`` other sequences to be compared. Comments and spaces do not count. A pair that is alike
    is no proof of copying.
    """
    known = {
        c["id"]: _runs(text_of(c)) | _runs(text_of(d))
        for c, d in zip(master.cells, release(master)["cells"], strict=True)
    }
    found = []
    for cell in master.ids("answer", "question"):
        runs = {who: _runs(of.get(cell, "")) - known[cell] for who, of in answers.items() if of}
        count = Counter(run for each in runs.values() for run in each)
        usual = {run for run, k in count.items() if k > max(3, len(runs) / 3)}
        runs = {who: own for who, each in runs.items() if len(own := each - usual) >= words}
        for first, second in itertools.combinations(sorted(runs), 2):
            a, b = runs[first], runs[second]
            if (share := len(a & b) / len(a | b)) >= least:
                found.append((first, second, cell, share))
    return sorted(found, key=lambda pair: -pair[3])


def _runs(text: str, length: int = 6) -> set[tuple[str, ...]]:
    lines = _as_python_reads(text[:20_000]).splitlines()
    words = [w for line in lines for w in _WORD.findall(line.split("#")[0])]
    return {tuple(words[k : k + length]) for k in range(len(words) - length + 1)}
