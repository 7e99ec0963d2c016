"""An entry: one file of Python, its hash, and what of it counts as bytes.

What an entry knows before the run could stand for data or weights. So comments and docstrings are
taken out before it runs. Its constants, its names, its zipped code and all parts of its syntax tree
(brackets in brackets are numbers, too) are charged beyond what a protocol needs.
"""

import ast
import hashlib
import lzma
import zlib
from dataclasses import dataclass

LONGEST = 200_000  # characters
FREE_CODE = 8000  # bytes, zipped
FREE_CONSTANTS = 512  # bytes of all numbers and texts together, as they are written
FREE_NAMES = 1500  # bytes of all different names together
FREE_NODES = 2000  # parts of the syntax tree; the longest record has 1,738
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
    num_constants: int  # bytes
    num_names: int  # bytes
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
    try:
        _check_length(text)
        tree = ast.parse(text.removeprefix("\ufeff"))  # an editor of Windows may write that
        for node in ast.walk(tree):
            if isinstance(node, _BODIES) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        source = ast.unparse(tree)
        _check_length(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        what = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deep"
        raise ValueError(f"the entry is no Python file: {what}{where}") from None
    zipped = min(len(zlib.compress(source.encode(), 9)), len(lzma.compress(source.encode())))
    values = [repr(n.value).encode() for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    constants, nodes = sum(map(len, values)), sum(map(_parts, ast.walk(tree)))
    names = sum(len(name.encode()) for name in _names(tree))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Entry(source, digest, zipped, constants, names, nodes)


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise ValueError(f"more than {LONGEST:,} characters")


def _parts(node: ast.AST) -> int:
    """A node is one part, each name in a list (``global a, b``) and each dot (``from ..``) too."""
    values = [value for _, value in ast.iter_fields(node) if isinstance(value, list)]
    texts = sum(isinstance(each, str) for value in values for each in value)
    return (not isinstance(node, ast.expr_context)) + texts + (getattr(node, "level", 0) or 0)


def _names(tree: ast.AST) -> set[str]:
    nodes = (node for node in ast.walk(tree) if not isinstance(node, ast.Constant))
    values = [value for node in nodes for _, value in ast.iter_fields(node)]
    each = (name for value in values for name in (value if isinstance(value, list) else [value]))
    return {name for name in each if isinstance(name, str)}
