"""Each command of an experiment takes seeds of one's own."""

import argparse
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHOUT_SEEDS = {
    "experiments.budget": "counts trials that are stored",
    "experiments.gpu": "runs commands of other modules",
    "experiments.language.readable": "stores one model, of the seed in its settings",
    "experiments.links": "measures seconds, in repeats",
    "experiments.links.emulator": "a process of experiments.links",
    "experiments.links.flower": "measures seconds and bytes of Flower, in repeats",
    "experiments.links.party": "a process of experiments.links",
    "experiments.null_rows": "measures how long the data are",
    "experiments.readme": "prints what is stored",
    "experiments.secrecy.flower_secagg": "counts the bytes of Flower's messages",
}


def commands() -> list[str]:
    """Every module of the experiments that is run with python -m."""
    found = []
    for path in sorted((ROOT / "experiments").rglob("*.py")):
        if "__name__ == " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__main__" else parts))
    return found


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("module", sorted({*commands()} - WITHOUT_SEEDS.keys()))
def test_a_command_takes_seeds(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Parsed(Exception):
        pass

    parse, found = argparse.ArgumentParser.parse_args, []

    def stop(parser: argparse.ArgumentParser, arguments: list[str] | None = None) -> None:
        found.append(parse(parser, arguments).seeds)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [module, "--seeds", "41", "42", "43"])
    with pytest.raises(Parsed):
        runpy.run_module(module, run_name="__main__")
    assert found == [[41, 42, 43]]


def test_what_takes_no_seeds_is_a_command() -> None:
    assert WITHOUT_SEEDS.keys() <= {*commands()}
    assert len(commands()) > 20
