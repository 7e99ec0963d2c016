"""What a stranger's machine does with the repository: Binder's plan, Colab's cell, the set-up."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import files_of_the_repository

ROOT = Path(__file__).parents[1]
# like the package itself, wherever it is hosted
PYPROJECT = (ROOT / "pyproject.toml").read_text()
HOME = re.search(r'Repository = "https://github.com/(\S+)"', PYPROJECT)[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
def test_binder_builds_what_we_mean():
    """The Dockerfile that repo2docker would build from; building it needs Docker and a network."""
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    plan = done.stdout + done.stderr
    assert done.returncode == 0, plan[-2000:]
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in plan
    assert "RUN ./binder/postBuild" in plan
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in plan
    assert "python=3.11" in plan


def test_binder_and_make_install_one_torch():
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert f"torch=={pinned[1]}\n" in (ROOT / "binder" / "requirements.txt").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_binder_scripts_run(name, tmp_path):
    """In a copy: postBuild removes the outputs of the notebooks in Binder's image."""
    script = ROOT / "binder" / name
    assert script.stat().st_mode & 0o111
    needed = ["tools/make_edition.py", "fltoolkit_course/cli.py", "notebooks/00_start_here.ipynb"]
    for path in map(Path, needed):
        (tmp_path / path.parent).mkdir(parents=True)
        shutil.copy(ROOT / path, tmp_path / path)
    env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/tmp"}
    about = {"capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run([script, "true"], cwd=tmp_path, env=env, **about)
    assert done.returncode == 0, done.stderr
    copy = (tmp_path / needed[-1]).read_text(encoding="utf-8")
    assert ('"output_type"' in copy) == (name != "postBuild")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_badges_and_install_cell_lead_to_this_repository(path):
    cells = json.loads(path.read_text())["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    assert f"colab.research.google.com/github/{HOME}/blob/course/notebooks/{path.name}" in text
    assert f"mybinder.org/v2/gh/{HOME}/HEAD?urlpath=lab/tree/notebooks/{path.name}" in text
    assert f"git+https://github.com/{HOME}" in text


def test_install_cell_does_nothing_elsewhere():
    """It is run as plain IPython: nothing is installed when google.colab is not loaded."""
    for path in NOTEBOOKS:
        code = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
        source = "".join(code[0]["source"]).replace("%pip", "raise SystemExit  # %pip")
        exec(source, {})
        with pytest.raises(SystemExit):
            exec(source.replace('"google.colab" in sys.modules', "True"), {})


def test_no_registry_is_named():
    """Only Binder's CPU-only torch index may be: users have registries of their own."""
    named = re.compile(r"pypi\.|/simple\b|--(extra-)?index-url|registry\.npmjs|deb\.debian")
    for name in files_of_the_repository():
        if name not in ("binder/requirements.txt", "tests/test_launch.py"):
            text = (ROOT / name).read_bytes().decode(errors="ignore")
            assert not named.search(text), f"{name} names a registry: {named.search(text)[0]}"


@pytest.mark.later
def test_the_examples_in_the_readme_run(capsys):
    both = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names = {}
    for example in both:
        exec(example, names)
    accuracy, sent = capsys.readouterr().out.splitlines()
    assert float(accuracy) > 0.85
    assert re.fullmatch(r"(\d+) bytes up, \1 bytes down", sent)
    assert [record["round"] for record in names["records"]] == [*range(10)]
    assert names["records"][-1]["loss"] < 0.2


def extras(text):
    """The extras of this package that a line of installing names."""
    found = re.findall(r"(?:fltoolkit|-e \.)\[([\w,]+)\]", text)
    return {name for names in found for name in names.split(",")}


def test_every_documented_way_installs_what_every_notebook_needs():
    """What a notebook's cell for Colab installs is in the extra that all other ways name."""
    (course,) = re.findall(r'^course = \["fltoolkit\[(.*?)\]"\]$', PYPROJECT, re.MULTILINE)
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        install = next("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        assert extras(install) <= {*course.split(",")}, path.name
    ways = ["README.md", "docs/for_students.md", "docs/instructors.md", "docs/release.md"]
    for way in [*ways, "binder/requirements.txt", "tools/try_wheel.py"]:
        assert "course" in extras((ROOT / way).read_text()), way
    line = 'install.py .venv -c constraints.txt -e ".[course]"'
    assert line in (ROOT / "Makefile").read_text()


_ONLY = """
import ast, importlib.metadata as meta, importlib.util, json, re, sys
from packaging.requirements import Requirement
owned, hidden = meta.packages_distributions().items(), set()
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hide())
for extras, path in json.loads(sys.argv[1]):
    todo, seen = [("fltoolkit", extra) for extra in ["", "lab", *extras]], set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            wanted = map(Requirement, meta.requires(name) or [])
        except meta.PackageNotFoundError:
            continue
        for each in wanted:
            if not each.marker or each.marker.evaluate({"extra": extra}):
                todo += [(each.name.lower().replace("_", "-"), e) for e in ["", *each.extras]]
    mine = {name for name, _ in seen} | {"setuptools", "pip"}
    hidden = {m for m, by in owned if not mine & {o.lower().replace("_", "-") for o in by}}
    for name in [name for name in sys.modules if name.split(".")[0] in hidden]:
        del sys.modules[name]  # what another notebook needed
    print(path)
    for cell in json.load(open(path))["cells"]:
        if cell["cell_type"] == "code":
            source = re.sub(r"^( *)[%!].*", r"\\1pass", "".join(cell["source"]), flags=re.M)
            for line in ast.walk(ast.parse(source)):
                if isinstance(line, ast.Import | ast.ImportFrom):
                    exec(compile(ast.Module([line], []), "import", "exec"), {})
"""


def more_than_lab(path):
    """The extras that a notebook's cell for Colab installs, beside the one that all need."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    install = next("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    assert "lab" in extras(install), "a lab imports its widgets when it is made"
    more = sorted(extras(install) - {"lab"})
    line = f'pip install "fltoolkit[{",".join(more)}] @ git+https://github.com/{HOME}"'
    assert (line in "".join(cells[0]["source"])) == bool(more), "the first cell says what it needs"
    return more


@pytest.mark.slow
def test_notebooks_import_nothing_but_what_their_extras_declare():
    """Other packages of the tests' environment are hidden, and so would be those of Colab."""
    asked = json.dumps([(more_than_lab(path), str(path)) for path in NOTEBOOKS])
    command = [sys.executable, "-c", _ONLY, asked]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
