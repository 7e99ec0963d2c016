"""tools/try_arm64.py without the emulator: arguments, command, messages and report."""

import copy
import importlib.util
import json
import re
import sys
from pathlib import Path

import every_codec

from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit_research.codecs import ContextEntropy

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "try_arm64.py"
spec = importlib.util.spec_from_file_location("try_arm64", TOOL)
arm64 = importlib.util.module_from_spec(spec)
spec.loader.exec_module(arm64)


def test_its_packages_are_those_of_the_package_and_its_tests_exist():
    """constriction has no wheel for it, which is why the tool was written."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text[text.index("\ndependencies = [") : text.index("[project.optional-dependencies]")]
    needed = set(re.findall(r'^ *"([\w-]+)', block, re.MULTILINE))
    assert needed - {re.match(r"[\w-]+", wheel)[0] for wheel in arm64.WHEELS} == {"constriction"}
    assert all((ROOT / name).exists() for name in arm64.TESTS)


def test_the_report_tells_bits_that_must_be_the_same_from_bytes_that_need_not(
    tmp_path, monkeypatch, capsys
):
    """Both machines are this one; then its messages, and what it decodes, are another one's."""
    codecs = [Pipeline(TopK(0.1)), Pipeline(Quantize(4), ContextEntropy())]
    monkeypatch.setattr(every_codec, "CODECS", codecs)
    monkeypatch.setattr(sys, "path", [*sys.path])
    given, found = tmp_path / "here.json", tmp_path / "there.json"
    arm64.messages(given)
    here = json.loads(given.read_text())
    assert [len(each) for each in here["messages"].values()] == [3, 3]
    same, damaged = copy.deepcopy(here), copy.deepcopy(here)

    first = repr(codecs[0])
    same["messages"][first].reverse()  # valid, and other values
    given.write_text(json.dumps(same))
    arm64.messages(given, found)
    there = json.loads(found.read_text())
    assert there["messages"] == here["messages"], "written from the same values"
    assert not arm64.compare(here, there)
    printed = capsys.readouterr().out
    assert f"1 of 2 codecs decode to the same bits\n    not {first}\n" in printed
    assert "2 of 2 codecs write the same bytes" in printed

    damaged["messages"][first][0] += "00"
    assert arm64.compare(here, damaged), "a message may be another one"
    printed = capsys.readouterr().out
    assert "2 of 2 codecs decode to the same bits\n1 of 2 codecs write the same bytes" in printed
    assert printed.count(here["system"]) == 2
