"""The size and the shape of the repository, as tables: python tools/house.py

    python tools/house.py            # this working tree
    python tools/house.py COMMIT     # the same of a commit, to compare with

Lines count blank lines and docstrings; code lines do not. A name of the core is unused if it stands
in no notebook, assignment, page, experiment or other package although a room exports it, or if no
file of the core uses it, either.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = "fltoolkit"
TOGETHER = ("tests", "experiments", "benchmarks", "examples", "tools")


def packages(root: Path = ROOT) -> list[str]:
    """The import packages of the wheel, the core first."""
    return sorted(path.parent.name for path in root.glob("fltoolkit*/__init__.py"))


def sources(root: Path, folder: str) -> list[Path]:
    """All Python files below a folder, with the stubs that say what a package exports."""
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in (".py", ".pyi"))


def num_lines(files: list[Path]) -> int:
    """All lines of these files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def num_code_lines(files: list[Path]) -> int:
    """The lines that are neither blank nor comment nor docstring."""
    total = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        silent: set[int] = set()
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Expr(ast.Constant(str())):
                    silent |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        rows = enumerate(text.splitlines(), start=1)
        total += sum(n not in silent and not re.match(r"\s*(#|$)", row) for n, row in rows)
    return total


def module_name(root: Path, path: Path) -> str:
    """The dotted name under which Python imports a file."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def imports_of(source: str) -> dict[str, set[str]]:
    """Each module of this repository that a source names, and the names it takes from there.

    Strings count, too: "fltoolkit_course.cli" or "experiments.audit:main" is an import that only
    happens later. Docstrings and longer texts do not.
    """
    ours = re.compile(r"(fltoolkit(_[a-z]+)?|experiments)(\.\w+)*")
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and ours.fullmatch(node.module or ""):
            found.setdefault(node.module or "", set()).update(each.name for each in node.names)
        elif isinstance(node, ast.Import):
            for each in node.names:
                if ours.fullmatch(each.name):
                    found.setdefault(each.name, set())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            module = node.value.partition(":")[0]
            if "." in module and ours.fullmatch(module):
                found.setdefault(module, set())
    return found


def arrows(root: Path = ROOT) -> Counter[tuple[str, str]]:
    """How many files of each package (and of experiments) import from another one."""
    found: Counter[tuple[str, str]] = Counter()
    for package in [*packages(root), "experiments"]:
        for path in sources(root, package):
            named = imports_of(path.read_text(encoding="utf-8"))
            others = {module.split(".")[0] for module in named} - {package}
            found.update((package, other) for other in others)
    return found


def words_of(path: Path) -> Counter[str]:
    """How often each word stands in a file: of a notebook, in the sources of its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return Counter(re.findall(r"\w+", text))


def unused_names(root: Path = ROOT) -> list[str]:
    """Names of the core that nobody needs: "fltoolkit.codecs: Sign", "fltoolkit.wire.pack"."""
    others = [*packages(root)[1:], "experiments", "examples", "benchmarks"]
    readers = [path for folder in others for path in sources(root, folder)]
    readers += [*(root / "notebooks").rglob("*.ipynb"), *(root / "docs").glob("*.md")]
    readers += [root / "README.md"]
    outside = set().union(*(words_of(path) for path in readers))
    inside = {path: words_of(path) for path in sources(root, CORE) if path.suffix == ".py"}
    unused = []
    for stub in sorted((root / CORE).rglob("*.pyi")):
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                names = {each.name for each in node.names} - outside
                unused += [f"{module_name(root, stub)}: {name}" for name in sorted(names)]
    for path, words in inside.items():
        used = outside.union(*(found for other, found in inside.items() if other != path))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = getattr(node, "name", "_")
            if not name.startswith("_") and name not in used and words[name] == 1:
                unused.append(f"{module_name(root, path)}.{name}")
    return unused


def required(root: Path = ROOT) -> list[str]:
    """The packages that every installation brings."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    return re.findall(r'^\s*"([\w-]+)', block[1] if block else "", re.MULTILINE)


def report(root: Path) -> str:
    """All tables as Markdown."""
    rows = ["| | files | lines | code lines |", "|---|---:|---:|---:|"]
    installed = [path for package in packages(root) for path in sources(root, package)]
    parts = {name: sources(root, name) for name in packages(root)}
    parts |= {"installed": installed} | {name: sources(root, name) for name in TOGETHER}
    rows += [
        f"| {name} | {len(files)} | {num_lines(files):,} | {num_code_lines(files):,} |"
        for name, files in parts.items()
    ]
    needed = required(root)
    unused = unused_names(root)
    rows += ["", f"Required dependencies: {len(needed)} ({', '.join(needed)}).", "", "Imports:", ""]
    rows += [f"- {a} -> {b}: {count} files" for (a, b), count in sorted(arrows(root).items())]
    rows += ["", f"Names of the core that nothing uses: {len(unused)}.", ""]
    return "\n".join([*rows, *(f"- {name}" for name in unused)]).rstrip()


def main(commit: str = "") -> None:
    """Print the tables of the working tree, or of a commit."""
    if not commit:
        print(report(ROOT))
        return
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(folder, filter="data")
        print(report(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
