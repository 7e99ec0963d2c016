"""An entry: one file of Python, its hash, and what of it counts as bytes.

What an entry knows before the run could stand for data or weights. So comments and docstrings are
taken out before it runs. Its constants, its names, its zipped code and the parts of its syntax tree
(brackets in brackets are numbers, too) are charged beyond what a protocol needs.
"""

import ast
import hashlib
import lzma
import zlib
from dataclasses import dataclass

FREE_CODE = 8000  # bytes, zipped
FREE_CONSTANTS = 512  # characters of all numbers and texts together
FREE_NAMES = 1500  # characters of all different names together
FREE_NODES = 2000  # expressions and statements; the longest record has 1,624
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Entry:
    """A file that was read: its code as it runs, its hash, and the bytes that it costs.

    >>> entry = read_entry("def owner(me, message):\\n    return 'samples', b'' # a comment\\n")
    >>> entry.source, entry.charge, entry.sha256[:8]
    ("def owner(me, message):\\n    return ('samples', b'')", 0, '6d7d3121')
    """

    source: str  # without comments and docstrings: this is what runs
    sha256: str  # of the file as it was handed in
    nbytes_code: int  # zipped
    num_constants: int  # characters
    num_names: int  # characters
    num_nodes: int = 0  # of the syntax tree

    @property
    def charge(self) -> int:
        """The bytes that the file costs, beyond what is free."""
        over = (self.nbytes_code - FREE_CODE, self.num_constants - FREE_CONSTANTS)
        more = (self.num_names - FREE_NAMES, self.num_nodes - FREE_NODES)
        return sum(max(0, each) for each in (*over, *more))


def read_entry(text: str) -> Entry:
    """Read an entry; ValueError if it is no Python, or too long to be read by people.

    >>> read_entry("def owner(me, message) return")
    Traceback (most recent call last):
    ...
    ValueError: the entry is no Python file: expected ':' (line 1)
    """
    if len(text) > 200_000:
        raise ValueError(f"the entry has {len(text):,} characters: at most 200,000 are allowed")
    try:
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, _BODIES) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        source = ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(f"the entry is no Python file: {what}{where}") from None
    zipped = min(len(zlib.compress(source.encode(), 9)), len(lzma.compress(source.encode())))
    constants = sum(len(repr(n.value)) for n in ast.walk(tree) if isinstance(n, ast.Constant))
    nodes = sum(isinstance(n, ast.expr | ast.stmt) for n in ast.walk(tree))
    names = sum(len(name.encode()) for name in _names(tree))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Entry(source, digest, zipped, constants, names, nodes)


def _names(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            if not isinstance(node, ast.Constant):
                found |= {each for each in values if isinstance(each, str)}
    return found
