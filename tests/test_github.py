"""What GitHub reads: workflows, forms, CITATION.cff. Held to its schemas and to the Makefile."""

import json
import re
from pathlib import Path

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

import fltoolkit

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = set((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
CONFIG = ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"
HELD_TO = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.github-issue-forms": sorted(FORMS - {CONFIG}),
    "vendor.github-issue-config": [CONFIG],
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", HELD_TO)
def test_schema(schema):
    args = ["--builtin-schema", schema, *map(str, HELD_TO[schema])]
    args += [] if schema.startswith("custom") else ["--default-filetype", "yaml"]
    done = CliRunner().invoke(check_jsonschema, args)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(path):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    for step in [step for job in jobs.values() for step in job["steps"]]:
        command = step.get("run", "")
        assert "${{" not in command, "give it to the script by env: a name may hold a command"
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= set(targets)
        for name in re.findall(r"\b(?:tools|tests)/[\w/.]+|\.ci/\w+", command):
            assert (ROOT / name).exists(), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_secret_is_needed(path):
    """Publishing is by identity; GitHub's own token is all else that a workflow knows."""
    text = path.read_text(encoding="utf-8")
    assert "secrets." not in text
    content = yaml.safe_load(text)
    assert content["permissions"] == {"contents": "read"}
    writers = {name: job for name, job in content["jobs"].items() if "permissions" in job}
    for job in writers.values():
        assert not any("checkout" in step.get("uses", "") for step in job["steps"])


def test_versions_agree():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == fltoolkit.__version__
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert "make setup" in container["postCreateCommand"]
