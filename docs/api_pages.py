"""The pages of the API reference, made from the docstrings while Sphinx builds the site.

Each page of docs/api/ holds one line, such as ``.. room:: fltoolkit.codecs``. This extension puts
the files of that package in its place, in reading order, and under each file its public names.

A name is documented under the path from which users import it: ``fltoolkit.codecs.Quantize`` and
not ``fltoolkit.codecs.quantize.Quantize``. A name that the room's door does not hold keeps the path
of its module.
"""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_origin

from docutils import nodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.roles import XRefRole
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[1]
PACKAGES = ["", "_research", "_engines", "_grading", "_contest", "_course"]  # in reading order


class Public(NamedTuple):
    """One public name."""

    path: str  # under which it is documented: "fltoolkit.codecs.Quantize"
    name: str
    module: ModuleType  # whose ``__all__`` or whose room's door holds it
    value: Any


def listed(docstring: str | None) -> dict[str, str]:
    """What a reading order says: the name at the beginning of each indented line, and its text."""
    return dict(re.findall(r"^    (\w+) +(\S.*)", docstring or "", re.MULTILINE))


def pages() -> list[str]:
    """All packages, each followed by its rooms, in reading order: the pages of the reference."""
    found = []
    for name in PACKAGES:
        package = importlib.import_module(f"fltoolkit{name}")
        inside = [f"{package.__name__}.{each}" for each in listed(package.__doc__)]
        found += [package.__name__, *(each for each in inside if is_room(each))]
    return found


def is_room(name: str) -> bool:
    """Whether this module is a folder with files."""
    return Path(ROOT, *name.split("."), "__init__.py").exists()


def is_class(value: object) -> bool:
    """Whether this is a class, which ``dict[str, int]`` is not, though Python 3.10 says so."""
    return isinstance(value, type) and get_origin(value) is None


def modules_of(page: str) -> list[ModuleType]:
    """The public modules of a page, in reading order."""
    found = [f"{page}.{name}" for name in listed(importlib.import_module(page).__doc__)]
    files = [n for n in found if Path(ROOT, *n.split(".")).with_suffix(".py").exists()]
    return [importlib.import_module(name) for name in files]  # other lines are examples


@cache
def tree_of(file: str | None) -> ast.Module:
    """The syntax tree of a file, which many functions here look into; none changes it."""
    return ast.parse(Path(file or "").read_text(encoding="utf-8"))


@cache
def origins(module: ModuleType) -> dict[str, str]:
    """The module from which each name was imported; names that are defined here are missing."""
    stub = Path(module.__file__ or "").with_suffix(".pyi")  # a door's names
    tree = tree_of(str(stub) if stub.exists() else module.__file__)
    return {
        alias.asname or alias.name: f"{module.__name__}." * node.level + (node.module or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def positions(module: ModuleType) -> dict[str, int]:
    """The line in which each name of a module is defined."""
    found: dict[str, int] = {}
    for node in tree_of(module.__file__).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        for name in [*names, getattr(node, "name", "")]:
            found[name] = node.lineno
    return found


@cache
def public_names(module: ModuleType) -> list[Public]:
    """What a module offers: the names of its ``__all__``, and what its room's door takes from it.

    A name that was imported from another public module is left out: it is documented there.
    """
    found = []
    door = importlib.import_module(module.__name__.rpartition(".")[0])
    offered = [] if door.__name__ == "fltoolkit" else getattr(door, "__all__", [])
    at_door = {name for name in offered if origins(door)[name] == module.__name__}
    came_from = origins(module)
    offered_here = {*getattr(module, "__all__", []), *at_door}
    lines = positions(module)
    for name in sorted(offered_here, key=lambda name: (lines.get(name, 0), name)):
        origin = came_from.get(name, "")
        if not origin or origin.rpartition(".")[2].startswith("_"):
            where = door if name in at_door else module
            found.append(Public(f"{where.__name__}.{name}", name, module, vars(module)[name]))
    return found


@cache
def names_of(page: str) -> list[Public]:
    """The public names of a page, in its order."""
    return [each for module in modules_of(page) for each in public_names(module)]


def elsewhere(page: str) -> dict[str, str]:
    """What a page's door offers although another page documents it: names and paths."""
    door = importlib.import_module(page)
    here = set() if page == "fltoolkit" else {each.name for each in names_of(page)}
    offered = [name for name in getattr(door, "__all__", []) if name not in here]
    return {
        name: next(
            each.path
            for other in pages()
            for each in names_of(other)
            if each.value is getattr(door, name)
        )
        for name in offered
    }


# ---------------------------------------------------------------------------- docstrings as reST


def as_rest(lines: list[str]) -> list[str]:
    """A docstring of this package as reStructuredText.

    The docstrings are plain text with names in backticks, doctests and indented tables. So signs
    that mean something in reStructuredText are escaped, and indented blocks become literal blocks.
    """
    out: list[str] = []
    prose: list[str] = []  # escaped paragraph by paragraph, since names in backticks may wrap
    literal = doctest = False
    for line in [*lines, ""]:
        blank = not (prose or (out and out[-1].strip()))
        if doctest and not line.strip():
            doctest = False
        elif line.lstrip().startswith(">>> ") and not doctest:
            doctest = True
            out += [*escaped(prose), ""]
            prose = []
        elif line.strip() and not line.startswith("    "):
            literal = False
        elif line.strip() and blank and not literal and not is_section(out):
            literal = True
            out += ["::", ""]
        if line.strip() and not doctest and not literal:
            prose.append(line)
        else:
            out += [*escaped(prose), line]
            prose = []
    return out


def is_section(out: list[str]) -> bool:
    """Whether the last line with text begins a list of arguments or the like, or an item."""
    last = next((line for line in reversed(out) if line.strip()), "")
    return bool(re.match(r"\s*([-*] |\w+:$|.*::$)", last)) or last.startswith("    ")


def escaped(paragraph: list[str]) -> list[str]:
    """The lines of a paragraph in which only backticks mean something, beside bold words."""
    pieces = re.split(r"(``.+?``|`[^`]+`)", "\n".join(paragraph), flags=re.DOTALL)
    for k in range(0, len(pieces), 2):
        pieces[k] = re.sub(r"[*|\\]|(?<=\w)_(?!\w)", r"\\\g<0>", pieces[k])
        if k and re.match(r"\w", pieces[k]):  # as in `Transfer`s
            pieces[k] = "\\ " + pieces[k]
    return "".join(pieces).split("\n") if paragraph else []


def fields_of(value: type) -> list[str]:
    """The fields of a dataclass or NamedTuple with the comments behind them, as a list."""
    try:
        file = inspect.getfile(value)
    except (OSError, TypeError):
        return []
    found = []
    rows = Path(file).read_text(encoding="utf-8").splitlines()
    classes = [node for node in tree_of(file).body if isinstance(node, ast.ClassDef)]
    for node in [each for one in classes if one.name == value.__name__ for each in one.body]:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name, words = node.target.id, rows[node.end_lineno - 1][node.end_col_offset :]
        words = re.sub(r"^\s*(# type: ignore\S*)?\s*", "", words)
        row = node.end_lineno
        while words.startswith("#") and row < len(rows) and rows[row].lstrip().startswith("#"):
            words += " " + rows[row].lstrip()[1:].strip()
            row += 1
        if not name.startswith("_") and words.startswith("#"):
            kind = f"``{ast.unparse(node.annotation)}``"
            kind += f", by default ``{ast.unparse(node.value)}``" if node.value else ""
            found.append(f"- **{name}** ({kind}): {escaped([words[1:].strip()])[0]}")
    return ["", "Fields:", "", *found, ""] if found else []


def process_docstring(app, what, name, value, options, lines):
    """Autodoc calls this for each docstring."""
    lines[:] = as_rest(lines)
    if what == "class":
        lines += fields_of(value)


def keep_bound(app, value, bound_method):
    """After Autodoc kept the defaults of a bound method: undo it.

    It stores the signature without ``self`` at the function that all bound methods share, so that
    the next one would lose a parameter.
    """
    if inspect.ismethod(value):
        value.__func__.__dict__.pop("__signature__", None)


def process_signature(app, what, name, value, options, signature, returns):
    """Autodoc calls this for each signature: those of protocols and exceptions say nothing."""
    silent = is_class(value) and (
        issubclass(value, BaseException) or getattr(value, "_is_protocol", False)
    )
    return ("", None) if silent and signature else None


def skip_member(app, what, name, value, skip, options):
    """Autodoc asks this for each member: the fields of a NamedTuple are in its list of fields."""
    return True if type(value).__name__ == "_tuplegetter" else None


# ----------------------------------------------------------------------------------- directives


def heading(words: str, sign: str) -> list[str]:
    """A title as reStructuredText."""
    return [words, sign * len(words), ""]


def docstring_in(public: Public) -> list[str]:
    """The docstring of a function that a decorator made into something else."""
    nodes = tree_of(public.module.__file__).body
    found = [node for node in nodes if getattr(node, "name", "") == public.name]
    return (ast.get_docstring(found[0]) or "").splitlines() if found else []


def entry(public: Public) -> list[str]:
    """One name as reStructuredText, for autodoc."""
    if is_class(public.value):
        return [f".. autoclass:: {public.path}", "   :members:", ""]
    if inspect.isroutine(public.value):
        return [f".. autofunction:: {public.path}", ""]
    told = ModuleAnalyzer.for_module(public.module.__name__).find_attr_docs()
    told[("", public.name)] = told.get(("", public.name)) or docstring_in(public)
    words = repr(public.value)
    value = [f"   :value: {words}"] if len(words) <= 80 and "<" not in words else []
    text = [f"   {line}" for line in as_rest(told["", public.name])]
    return [f".. py:data:: {public.path}", *value, "", *text, ""]


class Room(SphinxDirective):
    """``.. room:: fltoolkit.codecs``: the files of a package, with their names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The sections of the page."""
        page = self.arguments[0]
        door = importlib.import_module(page)
        lines = [*heading(page, "="), *as_rest(inspect.getdoc(door).splitlines()), ""]
        if others := elsewhere(page):
            names = ", ".join(f"`{name} <{path}>`" for name, path in others.items())
            lines += [f"``from {door.__name__} import ...`` also offers {names}.", ""]
        for module in modules_of(page):
            self.env.note_dependency(module.__file__)
            lines += heading(module.__name__.rpartition(".")[2], "-")
            lines += [*as_rest(inspect.getdoc(module).splitlines()), ""]
            for public in public_names(module):
                lines += entry(public)
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


class NameRole(XRefRole):
    """Names in single backticks: a link where the reference has that name, else only code.

    A name that begins with a capital letter is looked for in all rooms, since two rooms seldom have
    the same one; another name only where it is said.
    """

    def process_link(self, env, refnode, has_explicit_title, title, target):
        """Sphinx calls this for each name."""
        refnode["refdomain"], refnode["reftype"] = "py", "obj"
        refnode["refspecific"] = target[:1].isupper()
        for key in ("py:module", "py:class"):
            refnode[key] = env.ref_context.get(key)
        return title, target


def setup(app):
    """Sphinx calls this."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.add_directive("room", Room)
    app.add_role("name", NameRole(innernodeclass=nodes.literal))
    app.connect("autodoc-process-docstring", process_docstring, priority=400)  # before napoleon
    app.connect("autodoc-before-process-signature", keep_bound, priority=900)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True}
