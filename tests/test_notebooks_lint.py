"""What every notebook of the course keeps to, so that it reads well on GitHub, Binder and Colab."""

import ast
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
MAX_BYTES, MAX_CELLS, MAX_LINES, MEDIAN_LINES = 1_000_000, 60, 26, 8


# What takes long, by its name; functions of a notebook that call one of these take long, too.
LONG = re.compile(
    r"train\w*|fedavg|interval_averaging|ddp|diloco|watch|progress_bar|local_update|attack|sweep"
)
DEFINED = (ast.FunctionDef, ast.ClassDef)
MEASURED = re.compile(r"^  measured:   (.+)", re.MULTILINE)
# Notebooks in which a question still waits for a training, or an answer stands above its question.
NOT_YET: set[str] = set()


def code_of(cell: dict[str, Any]) -> ast.Module:
    """The code of a cell, without lines for IPython."""
    source = text(cell["source"])
    source = "" if source.startswith("%%") else source
    return ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.MULTILINE))


def called(tree: ast.AST, *functions: str) -> list[ast.Call]:
    """The calls of functions, by name or as attributes."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [c for c in calls if {name_of(c.func), ast.unparse(c.func)} & {*functions}]


def name_of(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def takes_long(tree: ast.AST, names: set[str]) -> bool:
    """Whether some code uses one of these names, or a name that `LONG` matches."""
    used = {name_of(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)}
    return any(name in names or LONG.fullmatch(name) for name in used)


def shown_by(output: dict[str, Any]) -> str:
    """What an output says, pictures too."""
    return text(output.get("text", "")) + text(output.get("data", {}).get("text/plain", ""))


def num_digits(value: str) -> int:
    return sum(character.isdigit() for character in value.split(" ")[0])


def stands_in(value: str, words: str) -> bool:
    """Whether some words have this amount with its unit, or its number if that has three digits."""
    number = value.split(" ")[0]
    wanted = re.escape(number if num_digits(number) > 2 else value).replace(r"\ ", " ?")
    return re.search(rf"(?<![\w.,]){wanted}(?![\w]|[.,]\d)", words) is not None


def emptied(tree: ast.AST) -> set[str]:
    """Names to which a cell assigns None."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            nothing = {ast.unparse(part) for part in getattr(node.value, "elts", [node.value])}
            targets = [part for t in node.targets for part in getattr(t, "elts", [t])]
            found |= {ast.unparse(part) for part in targets if nothing == {"None"}}
    return found


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

    def asking(self) -> list[str]:
        """Questions that are answered too early, or that wait for a training to end."""
        trees = [code_of(cell) for cell in self.code]
        asked = [call for tree in trees for call in called(tree, "predict", "predict.ask")]
        guesses = {ast.unparse(call.args[1]) for call in asked if len(call.args) > 1}
        questions = {
            ast.unparse(call.args[0]) for tree in trees for call in called(tree, "predict")
        }
        found = [
            f"predict.ask({question}) has no predict(...) with the same words"
            for question in {ast.unparse(call.args[0]) for call in asked} - questions
        ]
        long: set[str] = set()
        for number, tree in enumerate(trees, 1):
            long |= {
                d.name for d in ast.walk(tree) if isinstance(d, DEFINED) and takes_long(d, long)
            }
            body = [node for node in tree.body if not isinstance(node, DEFINED)]
            if guesses & emptied(tree) and any(takes_long(node, long) for node in body):
                found.append(f"code cell {number} asks and trains: ask in a cell of its own")
        return [*found, *self.open_takeaways(), *self.open_answers()]

    def open_takeaways(self) -> list[str]:
        """What follows from a result stands folded below its question, or the guess is none."""
        found, asked = [], False
        for number, cell in enumerate(self.cells):
            if cell["cell_type"] == "code":
                asked |= bool(called(code_of(cell), "predict", "predict.ask"))
                continue
            for part in re.split(r"\n\n(?=\*\*|## |<details>)", text(cell["source"])):
                asked = part.startswith("**Predict") or (asked and not part.startswith("## "))
                if asked and part.startswith("**Takeaway"):
                    found.append(f"cell {number}: a takeaway after a question is open: fold it")
                asked &= "<b>Takeaway</b>" not in part
        return found

    def open_answers(self) -> list[str]:
        """Measured values that the saved notebook shows without a guess.

        Above the question nothing may show them; in the cell that measures and in the two after
        it, what shows them needs ``predict.shown``.
        """
        above, found, open_ = "", [], []
        for cell in self.cells:
            if cell["cell_type"] == "markdown":
                above += text(cell["source"])
                continue
            shown = "\n".join(shown_by(output) for output in cell["outputs"])
            guarded = "predict.shown" in text(cell["source"]) or called(code_of(cell), "card")
            for value in [] if guarded else [value for values in open_[-2:] for value in values]:
                if stands_in(value, shown):
                    found.append(f"the answer {value!r} is shown without a guess: predict.shown")
            measured = [m for m in MEASURED.findall(shown) if num_digits(m) > 2 or " " in m]
            for value in measured:  # a number of two digits may stand there by chance
                if num_digits(value) > 2 and stands_in(value, above):
                    found.append(f"the answer {value!r} stands above its question")
            open_.append(measured)
            above += shown
        return found

    def calls(self, function: str) -> int:
        """How often code cells call ``function`` by name or as an attribute."""
        return sum(len(called(code_of(cell), function)) for cell in self.code)


def text(source: str | list[str]) -> str:
    """A notebook's text, which may be saved as a list of lines."""
    return source if isinstance(source, str) else "".join(source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path: Path) -> None:
    lint = Lint(path, json.loads(path.read_text(encoding="utf-8")))
    problems, asking = lint.problems(), lint.asking()
    if path.stem not in NOT_YET:
        problems += asking
    elif not asking:
        problems.append("all questions come first: remove this notebook from NOT_YET")
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
        max((name for name in table if stem.startswith(name.lower())), key=len): int(
            re.search(r"^About (\d+) minutes", page, re.MULTILINE)[1]
        )
        for stem, page in prose.items()
    }
    assert said == {name: minutes for name, (_, minutes) in table.items()}


def test_the_plans_for_teachers_add_up_to_the_minutes_of_the_notebooks() -> None:
    root = NOTEBOOKS[0].parents[1]
    table = map_of((root / "README.md").read_text(encoding="utf-8"))
    minutes = {name: each for name, (_, each) in table.items()}
    page = (root / "docs" / "instructors.md").read_text(encoding="utf-8")

    weeks = re.findall(r"^\| \d+ \| (\w+ .*?) \| ([\d +]+) \|.*\|$", page, re.MULTILINE)
    named = [re.findall(r"(?:^|, )(Codec|Appendix|\d\w+) ", names) for names, _ in weeks]
    assert [[minutes[name] for name in names] for names in named] == [
        [int(each) for each in said.split("+")] for _, said in weeks
    ]
    upto_10 = list(minutes)[: list(minutes).index("10") + 1]
    assert [name for names in named for name in names] == upto_10
    assert all(sum(minutes[name] for name in names) <= 120 for names in named)

    lessons = re.findall(r"^\| \d [A-Z].*? \|(.*min:.*)\|$", page, re.MULTILINE)
    assert len(lessons) == 6
    for lesson in lessons:
        home, *parts = lesson.split("|")
        whole = re.findall(r"\*\*(\w+)\*\* (?:gallery )?\((\d+) min\)", lesson)
        assert whole == [(name, str(minutes[name])) for name, _ in whole]
        assert sum(int(re.match(r" (\d+) min: ", part)[1]) for part in parts) == 90
        for part in [home] * bool(home.strip()) + parts:
            longest = [minutes[name] for name in re.findall(r"\*\*(\w+)\*\*", part)]
            at_once = "groups" in part or " or " in part  # each student takes one of the two
            needed = max(longest, default=0) if at_once else sum(longest)
            assert int(re.match(r" (\d+) min: ", part)[1]) >= needed, part


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


STREAM = {"output_type": "stream", "text": "Sent?\n  measured:   163,852 B\n"}


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
    code[1]["outputs"].append(STREAM)
    prose = changes.pop("prose", prose + "[b](https://mybinder.org/v2/c?urlpath=lab/01_a.ipynb)")
    content = {"metadata": {"kernelspec": {}, **changes}}
    content["cells"] = [{"cell_type": "markdown", "source": prose.splitlines(True)}, *code]
    lint = Lint(Path("01_a.ipynb"), content)
    return lint.problems() + lint.asking()


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
        ({"last": {"source": "x = 1\n" * (MAX_LINES + 1)}}, r"code cells \[4\]"),
        ({"last": {"source": "check(1)\n" * 9}}, "10 self-checks"),
        (
            {"last": {"source": "g = None\nlist(train_split())\npredict('a', g, 1)"}},
            "cell 4 asks and",
        ),
        (
            {"last": {"source": "def f():\n    fedavg()\ng = None\nf()\npredict.ask('?', g)"}},
            "cell 4 asks and trains",
        ),
        ({"last": {"source": "g = None\npredict.ask('?', g)"}}, "no predict.* same words"),
        ({"last": {"outputs": [{**STREAM, "text": "It is 163,852."}]}}, "shown without a guess"),
        ({"prose": "It sends 163,852 bytes."}, "answer '163,852 B' stands above"),
        ({"prose": "**Predict.** So?\n\n**Takeaway.** So."}, "takeaway after a question is open"),
        ({"prose": ""}, "colab.*mybinder.*<details>.*References"),
    ],
)
def test_the_lint_finds_what_it_should(changes: dict[str, Any], problem: str) -> None:
    assert re.search(problem, " ".join(made_up(**changes)))
