"""What an earlier version wrote can still be read, and the same settings still give the same bytes.

tests/stored/README.md says what is kept there; stored_runs.py has the runs.
"""

import json
import platform
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import stored_runs
import torch
from stored_runs import ANSWER, ANSWERED, CODECS, RESUMABLE, RUNS

from experiments.pareto import report as pareto_report
from fltoolkit import links
from fltoolkit.checkpoint import load_run, save_run
from fltoolkit.codecs import coders
from fltoolkit.research import Store, read, run

STORED = Path(__file__).parent / "stored"
MESSAGES, STORED_RUNS, KEYS, RESUMED = (
    json.loads((STORED / name).read_text(encoding="utf-8"))
    for name in ("messages.json", "runs.json", "keys.json", "checkpoint/records.json")
)
HERE = {"torch": torch.__version__, "numpy": np.__version__, "machine": platform.machine()}
SAME_SYSTEM = HERE.items() <= MESSAGES["made_with"].items()


def check(got, stored, where=""):
    """Equal texts, whole numbers and order, and nearly equal floats: 1e-5 of their size."""
    assert type(got) is type(stored), where
    if isinstance(stored, dict):
        assert [*got] == [*stored], where
        for key in stored:
            check(got[key], stored[key], f"{where}[{key!r}]")
    elif isinstance(stored, torch.Tensor):
        torch.testing.assert_close(got, stored, rtol=1e-5, atol=1e-6, msg=lambda m: f"{where}: {m}")
    elif isinstance(stored, list | tuple):
        assert len(got) == len(stored), where
        for number, pair in enumerate(zip(got, stored, strict=True)):
            check(*pair, f"{where}[{number}]")
    elif isinstance(stored, float):
        assert got == pytest.approx(stored, rel=1e-5, abs=1e-6), where
    else:
        assert got == stored, where


# ------------------------------------------------------------------------------------- messages


def check_tree(got, stored, codec=None):
    """Bit by bit; on another system to the last digits, where sums may be rounded otherwise.

    Rotations are undone since then with sums in a fixed order, the same on every machine, where a
    kernel for matrices chose the order: there the last bits differ from what was stored.
    """
    if any(stage in repr(codec) for stage in ("Rotate", "DRIVE", "EDEN")):
        tree = stored_runs.undumped(stored)
        assert [*got] == [*tree]
        for name, tensor in tree.items():
            torch.testing.assert_close(got[name], tensor, rtol=0, atol=1e-6)
        return
    tree = stored_runs.undumped(stored)
    assert [*got] == [*tree]
    for name, tensor in tree.items():
        assert (got[name].dtype, got[name].shape) == (tensor.dtype, tensor.shape)
        if SAME_SYSTEM or not tensor.is_floating_point():
            assert torch.equal(got[name], tensor), name
        else:
            torch.testing.assert_close(got[name], tensor, rtol=1e-3, atol=1e-5)


SHORTER_NOW = ("Pipeline(Quantize(bits=3, stochastic=False, seed=0, per='tensor'))",)
RUN_SHORTER_NOW = ("fedavg_adaptive_levels",)


@pytest.fixture
def rounding_up(monkeypatch):
    """Symbols are packed as by version 0.1.0: each piece of their bits in whole bytes of its own.

    Only for what is named in the two lines above; all else has the bytes that it had.
    """
    return lambda: monkeypatch.setattr(coders, "_is_tight", lambda *_: False)


@pytest.mark.parametrize("codec", [c for c in CODECS if repr(c) in SHORTER_NOW], ids=repr)
def test_a_message_that_is_shorter_now_holds_the_same(codec):
    sender, receiver = stored_runs.begun(codec), stored_runs.begun(codec)
    for number, row in enumerate(MESSAGES[repr(codec)]):
        message = sender.encode(stored_runs.messages_tree(number))
        assert len(message) < len(row["message"]) / 2
        check_tree(receiver.decode(message), row["decoded"], codec)


def test_each_codec_is_there_once():
    assert [*MESSAGES] == ["made_with", *map(repr, CODECS), repr(ANSWER)]


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_a_stored_message_is_read_as_before(codec):
    receiver = stored_runs.begun(codec)
    for row in MESSAGES[repr(codec)]:
        check_tree(receiver.decode(bytes.fromhex(row["message"])), row["decoded"], codec)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_a_message_is_written_as_before(codec, rounding_up):
    """But for zlib and zstd, other versions of which may compress otherwise, and for low rank on
    another system, where products of matrices are rounded otherwise.
    """
    if "Deflate" in repr(codec) or "Zstd" in repr(codec):
        pytest.skip("another version of the library may compress otherwise")
    if "PowerSGD" in repr(codec) and not SAME_SYSTEM:
        pytest.skip("products of matrices may be rounded otherwise here")
    if repr(codec) in SHORTER_NOW:
        rounding_up()
    sender = stored_runs.begun(codec)
    for number, row in enumerate(MESSAGES[repr(codec)]):
        assert sender.encode(stored_runs.messages_tree(number)).hex() == row["message"]


def test_an_answer_is_written_and_read_as_before():
    stored = MESSAGES[repr(ANSWER)]
    assert [row["message"] for row in stored_runs.answered()] == [row["message"] for row in stored]
    question, answer = (bytes.fromhex(row["message"]) for row in stored)
    receiver = stored_runs.begun(ANSWERED)
    check_tree(receiver.decode(question), stored[0]["decoded"])
    check_tree(stored_runs.introduced(receiver).decode(answer), stored[1]["decoded"])


# ----------------------------------------------------------------------------------------- runs


def test_each_run_is_there_once():
    assert [*STORED_RUNS] == [*RUNS]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_the_stored_records_bytes_and_weights(name, rounding_up):
    if name in RUN_SHORTER_NOW:
        rounding_up()
    check(stored_runs.summary(RUNS[name]()), STORED_RUNS[name])


def test_two_ways_to_go_through_one_network_are_the_same():
    """So that the runs are what they say: three parties or U-shaped, the losses are the same."""
    hops, u = (STORED_RUNS[name]["records"] for name in ("split_multi_hop", "split_u_shaped"))
    assert [record["loss"] for record in hops] == [record["loss"] for record in u]


# ---------------------------------------------------------------------------------------- sweeps


@pytest.fixture
def store(tmp_path):
    """A copy of the stored sweep, which opening would change."""
    with Store(shutil.copy(STORED / "sweep.sqlite", tmp_path / "sweep.sqlite")) as store:
        yield store


def test_experiments_have_their_keys():
    found = {f"{e.name}, seed {e.seed}": e.key for e in read(STORED / "experiments.yaml")}
    assert found == KEYS


def test_the_stored_sweep_holds_the_experiments(store):
    experiments = read(STORED / "experiments.yaml")
    results = store.results()
    assert {r.experiment.key: r.experiment for r in results} == {e.key: e for e in experiments}
    assert sorted(KEYS.values()) == sorted(r.experiment.key for r in results)
    assert not any(r.error or not len(r.history) for r in results)
    assert all(e.key in store for e in experiments)


@pytest.mark.parametrize("name", [name for name in KEYS if not name.endswith("seed 1")])
def test_an_experiment_gives_the_stored_records(store, name, monkeypatch):
    """Also with error feedback of gradients, which version 0.1.0 took and a channel now refuses."""
    monkeypatch.setattr(links, "OF_SAMPLES", ())
    (result,) = store.results([KEYS[name]])
    check([*map(dict, run(result.experiment))], [*map(dict, result.history)])


def test_a_run_of_the_results_page_gives_the_same_again():
    """The cheapest one, over ten passes: another system may see a test sample or two otherwise."""
    title = "SplitNN, float32 (IID)"
    (kept,) = (
        result
        for result in pareto_report.read_kept()
        if (e := result.experiment).name == title and e.data == "digits" and e.seed == 0
    )
    history = run(kept.experiment)
    for name in pareto_report.CURVE[:2]:
        assert history.column(name) == kept.history.column(name)
    for name in history[-1]:
        if name.startswith(("nbytes", "nominal", "num_", "client_")):
            assert history[-1][name] == kept.history[-1][name], name
    accuracies = zip(history.column("accuracy"), kept.history.column("accuracy"), strict=True)
    assert max(abs(now - then) for now, then in accuracies) < 3 / 360
    assert history[-1]["test_loss"] == pytest.approx(kept.history[-1]["test_loss"], rel=0.01)


# ------------------------------------------------------------------------------------ saved runs


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_saved_run_goes_on_to_the_stored_end(name, tmp_path):
    shutil.copytree(STORED / "checkpoint" / name, tmp_path / name)
    again = RESUMABLE[name]()
    assert load_run(tmp_path / name, again.saved, again.channel) == again.stop
    records = again.train(again.stop)
    run = stored_runs.finished(records, again.channel, again.parties)
    stored = RESUMED[name]
    assert len(run.records) > 2
    assert len(run.records) + again.stop == len(stored["records"])
    check(stored_runs.summary(run), {**stored, "records": stored["records"][again.stop :]})


def leave_out_unknown_settings(got, wanted):
    """Remove what only one of two versions of torch knows among an optimizer's settings."""
    both = [each.get("optimizer", {}).get("param_groups", []) for each in (got, wanted)]
    for mine, theirs in zip(*both, strict=True):
        for name in mine.keys() ^ theirs.keys():
            (mine if name in mine else theirs).pop(name)


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_run_is_saved_as_before(name, tmp_path):
    """The same files with the same in them, and the same records before it was saved."""
    half = RESUMABLE[name]()
    records = [*map(dict, islice(half.train(0), half.stop))]
    check(records, RESUMED[name]["records"][: half.stop])
    saved = save_run(tmp_path, half.saved, half.channel)
    stored = STORED / "checkpoint" / name / saved.name
    files = sorted(path.name for path in stored.iterdir())
    assert sorted(path.name for path in saved.iterdir()) == files
    for file in files:
        if file.endswith(".pt"):
            got, wanted = (torch.load(each / file, weights_only=True) for each in (saved, stored))
            leave_out_unknown_settings(got, wanted)
            check(got, wanted, file)
