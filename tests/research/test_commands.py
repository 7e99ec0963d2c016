import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fltoolkit.cli import commands, main
from fltoolkit.data import Samples
from fltoolkit.history import History
from fltoolkit_research import Experiment, Result, Store
from fltoolkit_research.commands import _nbytes

TINY = {"num_samples": 64, "rounds": 1}


@pytest.mark.slow
def test_from_a_file_to_a_picture(tmp_path, capsys):
    file = tmp_path / "plan.json"
    plans = [{"name": "plain"}, {"name": "diverges", "lr": 1e30}]
    file.write_text(json.dumps({"defaults": TINY, "experiments": plans}))
    assert main(["sweep", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "| plain |" in out
    assert "failed: diverges, seed 0: FloatingPointError" in err
    store = tmp_path / "plan.jsonl"
    assert len(Store(store)) == 2
    assert main(["compare", str(store), "--target", "0.01", "--budget", "1MB"]) == 0
    assert "accuracy within 1.0 MB" in capsys.readouterr().out
    figure = tmp_path / "plan.png"
    assert main(["compare", str(store), "--figure", str(figure)]) == 1, "one of them failed"
    assert figure.read_bytes()[1:4] == b"PNG"


OWN_CODEC = Path(__file__).parents[1] / "own_codec.py"


def test_a_codec_of_ones_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    shutil.copy(OWN_CODEC, tmp_path)
    codecs = {"gradients": "Pipeline(Nothing())"}
    Path("plan.json").write_text(json.dumps([TINY, {**TINY, "codecs": codecs}]))
    assert main(["sweep", "plan.json"]) == 2
    assert "--import MODULE" in capsys.readouterr().err
    assert main(["sweep", "plan.json", "--import", "own_codec"]) == 0
    assert "Pipeline(Nothing())" in capsys.readouterr().out
    assert main(["compare", "plan.jsonl", "--import", "own_codec"]) == 0
    assert "Pipeline(Nothing())" in capsys.readouterr().out
    assert main(["compare", "plan.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert "| split |" in out
    assert "plan.jsonl: 1 of 2 experiments are left out" in err
    assert "--import MODULE" in err


@pytest.mark.later
def test_seeds_are_a_list_and_another_version_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(json.dumps({**TINY, "seeds": [0, 1]}))
    assert main(["sweep", "plan.json", "--seeds", "41", "42", "43"]) == 0
    store = Store("plan.jsonl")
    assert [r.experiment.seed for r in store.results()] == [41, 42, 43]
    store.add(store.results()[0]._replace(code="0.1.9"))
    assert main(["compare", "plan.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert "split, code='0.1.9'" in out
    assert "several versions of fltoolkit made these results: 0.1.9 (1 runs)" in err
    assert main(["sweep", "plan.json", "--seeds", "41"]) == 0
    assert "several versions" not in capsys.readouterr().err, "a sweep takes what this one made"


def test_budgets_are_numbers_with_a_unit(capsys):
    assert _nbytes(".5 kB") == 500
    with pytest.raises(SystemExit):
        main(["compare", "x.jsonl", "--budget", "1.2.3MB"])
    assert "'1.2.3MB': write a number with B" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "nothing.jsonl"], "Make one with fltoolkit sweep"),
        (["sweep", "plan.json"], "lr='fast' is a str"),
        (["sweep", "x.json", "--import", "not_there"], "Go to the folder of not_there.py, or set"),
        (["sweep", "x.json", "--import", "/a/mine.py"], "in its folder, give mine alone"),
    ],
)
def test_mistakes_are_told_in_a_line(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text('{"lr": "fast"}')
    assert main(words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith(f"fltoolkit {words[0]}: ")


@pytest.mark.later
def test_no_help_imports_torch():
    code = """if True:
        import sys
        from fltoolkit.cli import commands, main
        more = {"cup": ["tracks", "rehearse", "verify", "board", "history"],
                "assignment": ["test", "release", "check", "grade"]}
        for command in commands():
            for words in [[], *([each] for each in more.get(command, []))]:
                try: main([command, *words, "--help"])
                except SystemExit: pass
                for slow in {"torch", "numpy", "matplotlib"} & sys.modules.keys():
                    sys.exit(f"{command} {words}: imports {slow}")"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: ") == len(commands()) + 9


def test_compare_says_what_goes_where(tmp_path, capsys):
    rows = {
        "both": {"nbytes": 400, "nbytes_up": 300, "nbytes_down": 100},
        "ring": {"nbytes": 300, "nbytes_up": 60, "nbytes_down": 0},
    }
    store = Store(tmp_path / "made_up.jsonl")
    for name, row in rows.items():
        experiment = Experiment(name=name, lr=row["nbytes"] / 1000)
        store.add(Result(experiment, History([{**row, "accuracy": 0.9}]), "", 1.0))
    assert main(["compare", str(store.path)]) == 0
    wanted = "of all bytes: both 75% up, 25% down; ring 20% up, 0% down, 80% between clients\n"
    assert wanted in capsys.readouterr().out


def windows():
    """A text as samples that overlap, each with a sequence of targets."""
    x = torch.arange(40).reshape(10, 4)
    return Samples(x, x + 1, x, x + 1)


def unreadable():
    raise OSError("its disk is in a drawer")


def test_compare_says_how_many_times_the_data(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FLTOOLKIT_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setattr("pooch.retrieve", lambda *args, **more: pytest.fail("a download"))
    half, last = {"num_samples": 700}, History([{"accuracy": 0.9, "nbytes": 57_120}])
    store = Store(tmp_path / "made_up.jsonl")
    names = ("fashion_mnist", "windows()", "unreadable()")
    data = dict(zip(names, ("fashion_mnist", windows, unreadable), strict=True))
    for name, more in {
        "all": {},
        "half": half,
        **{k: {"data": v} for k, v in data.items()},
    }.items():
        store.add(Result(Experiment(name=name, **more), last, "", 1.0))
    compare = ["compare", str(store.path), "--import", __name__]
    assert main(compare) == 0
    out = capsys.readouterr().out
    factors = dict(re.findall(r"\| (\S+) \| 90.00 (?:\|[^|]*)?\| 57.1 kB \| (\S+) \|", out))
    assert float(factors["all"]) == pytest.approx(2, abs=0.02)
    assert float(factors["half"]) == pytest.approx(4, abs=0.3)
    assert [factors[name] for name in names] == ["-"] * 3
    assert "- for fashion_mnist: fashion_mnist: its files are not on this machine" in out
    assert "- for windows(): its targets are sequences" in out
    assert "- for unreadable(): its disk is in a drawer" in out
    assert "- for digits" not in out
    assert main([*compare, "--csv"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("windows()")]
    assert rows == ["windows(),0.9,,,57120.0,,1,,,,,,1"]
