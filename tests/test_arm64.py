"""tools/try_arm64.py: what it installs and runs under the emulator."""

import importlib.util
import re
from pathlib import Path

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
