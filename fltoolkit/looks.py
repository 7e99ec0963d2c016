"""What a person should look at: words in an answer, and answers that are alike.

Nothing here changes a point. Next: gradebook.py.
"""

import re

__all__ = ["suspicious"]

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
    """Kinds of things in an answer that are worth a look by a person; they never change points.

    >>> suspicious("import os; os._exit(0)")
    ['the end of the process']
    """
    return [kind for kind, pattern in _LOOKS.items() if re.search(pattern, source)]
