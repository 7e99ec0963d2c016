"""What every notebook of the course keeps to, so that it reads well on GitHub, Binder and Colab."""

import ast
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
MAX_BYTES, MAX_CELLS, MAX_LINES, MEDIAN_LINES = 1_000_000, 60, 25, 8


class Lint:
    """A notebook and the problems found in it."""

    def __init__(self, path: Path, content: dict[str, Any]):
        self.name, self.metadata, self.cells = path.stem, content["metadata"], content["cells"]
        self.code = [cell for cell in self.cells if cell["cell_type"] == "code"]
        self.prose = "\n".join(
            text(c["source"]) for c in self.cells if c["cell_type"] == "markdown"
        )

    def problems(self) -> list[str]:
        return [*self.form(), *self.teaching(), *self.outputs()]

    def form(self) -> list[str]:
        lines = [len(text(cell["source"]).strip().splitlines()) for cell in self.code]
        found = []
        if not self.code or "google.colab" not in text(self.code[0]["source"]):
            found.append("the first code cell is not the install cell for Colab")
        for site in ("colab.research.google.com", "mybinder.org"):
            if not re.search(rf"\]\(https://{site}/\S*{self.name}", self.prose):
                found.append(f"no badge that opens this notebook on {site}")
        if "widgets" in self.metadata:
            found.append("metadata.widgets: GitHub calls such a notebook invalid; remove it")
        if "kernelspec" not in self.metadata:
            found.append("no metadata.kernelspec: JupyterLab would ask for a kernel")
        if any("NBVAL_" in text(cell["source"]) for cell in self.code):
            found.append("a comment for nbval: readers need not see it, use the cell's tags")
        if len(self.cells) > MAX_CELLS:
            found.append(f"{len(self.cells)} cells, at most {MAX_CELLS}")
        if max(lines, default=0) > MAX_LINES:
            long = [number for number, count in enumerate(lines, 1) if count > MAX_LINES]
            found.append(f"code cells {long} have more than {MAX_LINES} lines")
        if lines and statistics.median(lines) > MEDIAN_LINES:
            found.append(f"the median code cell has {statistics.median(lines)} lines")
        return found

    def teaching(self) -> list[str]:
        if self.name.startswith("00"):
            return []
        found = []
        if (count := self.calls("predict")) < 3:
            found.append(f"{count} predictions, at least 3: call predict(...) before a result")
        if not 2 <= (count := self.calls("check")) <= 4:
            found.append(f"{count} self-checks, 2 to 4: call check(...)")
        if "<details>" not in self.prose:
            found.append("no exercise with a folded solution (<details>)")
        if not re.search(r"^#+ References", self.prose, re.MULTILINE):
            found.append("no heading References")
        return found

    def outputs(self) -> list[str]:
        found = []
        counts = [cell["execution_count"] for cell in self.code if text(cell["source"]).strip()]
        if counts != list(range(1, len(counts) + 1)):
            found.append(f"execution counts {counts}: restart the kernel, run all, save")
        outputs = [(n, out) for n, cell in enumerate(self.code, 1) for out in cell["outputs"]]
        if not outputs:
            found.append("no saved outputs: run all and save")
        for number, output in outputs:
            data = output.get("data", {})
            plain = text(data.get("text/plain", "")).strip()
            if output["output_type"] == "error":
                found.append(f"code cell {number} saved an error: {output['ename']}")
            if "image/svg+xml" in data or "<svg" in text(data.get("text/html", "")):
                found.append(f"code cell {number} saved SVG, which GitHub breaks; use PNG")
            if "image/png" in data and (not plain or re.fullmatch(r"<.*>", plain, re.DOTALL)):
                found.append(f"code cell {number}: picture without its numbers as text: {plain!r}")
        return found

    def calls(self, function: str) -> int:
        """How often code cells call ``function`` by name or as an attribute."""
        count = 0
        for cell in self.code:
            source = re.sub(r"^(\s*)[%!].*", r"\1pass", text(cell["source"]), flags=re.MULTILINE)
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "id", getattr(node.func, "attr", None))
                    count += name == function
        return count


def text(source: str | list[str]) -> str:
    """A notebook's text, which may be saved as a list of lines."""
    return source if isinstance(source, str) else "".join(source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path: Path) -> None:
    problems = Lint(path, json.loads(path.read_text(encoding="utf-8"))).problems()
    if path.stat().st_size > MAX_BYTES:
        problems.append(f"{path.stat().st_size:,} bytes, at most {MAX_BYTES:,}")
    assert not problems, "\n".join([f"{path.name}:", *problems])


def map_of(page: str) -> dict[str, tuple[str, int]]:
    """The rows of a page's table of notebooks: number or name -> (question, minutes)."""
    row = re.compile(r"^\| \W*(\w+) .*?\| ([^|]+\?) \| (\d+) \|$", re.MULTILINE)
    return {name: (words.lower(), int(minutes)) for name, words, minutes in row.findall(page)}


def test_readme_map_and_notebooks_agree_on_questions_and_minutes() -> None:
    prose = {path.stem: prose_of(path) for path in NOTEBOOKS}
    table = map_of((NOTEBOOKS[0].parents[1] / "README.md").read_text(encoding="utf-8"))
    assert table == map_of(prose["00_start_here"])
    said = {
        next(name for name in table if stem.startswith(name.lower())): int(
            re.search(r"^About (\d+) minutes", page, re.MULTILINE)[1]
        )
        for stem, page in prose.items()
    }
    assert said == {name: minutes for name, (_, minutes) in table.items()}


def test_back_and_next_lead_through_the_course_in_the_order_of_the_map() -> None:
    start = NOTEBOOKS[0]
    order = [start.name, *re.findall(r"^\| \[.*?\]\((\S+)\) \|", prose_of(start), re.MULTILINE)]
    assert sorted(order) == sorted(path.name for path in NOTEBOOKS)
    for here, name in enumerate(order):
        last = prose_of(start.with_name(name)).splitlines()[-1]
        wanted = ["Back"] * (here > 0) + ["Next"] * (here < len(order) - 1)
        assert re.findall(r"\*\*(\w+):\*\* \[", last) == wanted, name
        neighbours = order[max(here - 1, 0) : here] + order[here + 1 : here + 2]
        assert re.findall(r"\]\((\S+)\)", last) == neighbours, name


def prose_of(path: Path) -> str:
    return Lint(path, json.loads(path.read_text(encoding="utf-8"))).prose


def made_up(**changes: Any) -> list[str]:
    """The problems of a small notebook in order, changed as told."""
    sources = ["if 'google.colab' in sys.modules:\n    pass", "predict(1)\npredict(2)\npredict(3)"]
    sources += ["course.check(1)\n%time check(2)", "check(3)"]
    picture = {"image/png": "", "text/plain": "loss ends at 0.1"}
    code = [
        {"cell_type": "code", "source": source, "execution_count": number, "outputs": []}
        for number, source in enumerate(sources, 1)
    ]
    code[1]["outputs"] = [{"output_type": "display_data", "data": changes.pop("data", picture)}]
    code[3] |= changes.pop("last", {})
    prose = "[a](https://colab.research.google.com/b/01_a.ipynb) <details>\n## References\n"
    prose = changes.pop("prose", prose + "[b](https://mybinder.org/v2/c?urlpath=lab/01_a.ipynb)")
    content = {"metadata": {"kernelspec": {}, **changes}}
    content["cells"] = [{"cell_type": "markdown", "source": prose.splitlines(True)}, *code]
    return Lint(Path("01_a.ipynb"), content).problems()


def test_the_lint_accepts_a_good_notebook() -> None:
    assert made_up() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"widgets": {}}, "metadata.widgets"),
        ({"data": {"image/png": "", "text/plain": "<Figure size 640x480>"}}, "without its numbers"),
        ({"data": {"image/png": ""}}, "without its numbers"),
        ({"data": {"image/svg+xml": ""}}, "SVG"),
        ({"data": {"text/html": ["<svg", ">"]}}, "SVG"),
        ({"last": {"execution_count": 7}}, "execution counts"),
        ({"last": {"outputs": [{"output_type": "error", "ename": "KeyError"}]}}, "KeyError"),
        ({"last": {"source": "# NBVAL_SKIP\ncheck(3)"}}, "comment for nbval"),
        ({"last": {"source": "x = 1\n" * 26}}, r"code cells \[4\]"),
        ({"last": {"source": "check(1)\n" * 9}}, "10 self-checks"),
        ({"prose": ""}, "colab.*mybinder.*<details>.*References"),
    ],
)
def test_the_lint_finds_what_it_should(changes: dict[str, Any], problem: str) -> None:
    assert re.search(problem, " ".join(made_up(**changes)))
