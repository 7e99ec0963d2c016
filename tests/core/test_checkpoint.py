import copy
import io
import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from core.split.networks import assert_equal_weights, party, seed_parties, small_net, toy_data
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.checkpoint import (
    _line_of_sums,
    _read,
    has_run,
    load_run,
    save_run,
    state_of,
    written,
)
from fltoolkit.codecs import Pipeline, TopK
from fltoolkit.data import Batches
from fltoolkit.party import SGD, Party
from fltoolkit.split import split_step, train_split
from fltoolkit.wire import pack
from fltoolkit_research.codecs import BFloat16


@pytest.mark.later
@pytest.mark.parametrize("optimizer", [SGD, torch.optim.Adam])
def test_resumed_run_is_bit_equal_to_an_uninterrupted_one(tmp_path, optimizer):
    data = Batches(*toy_data(), batch_size=8, seed=0)

    def fresh():
        model = small_net(dropout=False)
        return model, [
            party("alice", model[:4], optimizer=optimizer),
            party("bob/b", model[4:], nn.NLLLoss(), optimizer),
        ]

    whole, parties = fresh()
    straight = list(train_split(parties, data.epochs(3), Channel()))

    _, parties = fresh()
    channel = Channel()
    run = train_split(parties, data.epochs(3), channel)
    for saved_at in (4, 9):  # the newer save replaces the older
        for record in run:
            if record["step"] == saved_at:
                break
        save_run(tmp_path / "run", parties, channel)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["step-000009"]
    files = sorted(p.name for p in (tmp_path / "run" / "step-000009").iterdir())
    assert files == ["0-alice.state", "1-bob_b.state", "SHA256SUMS", "channel.state"]

    resumed, parties = fresh()
    channel = Channel()
    step = load_run(tmp_path / "run", parties, channel)
    rest = list(train_split(parties, itertools.islice(data.epochs(3), step, None), channel))
    assert rest == straight[9:]
    assert_equal_weights(resumed, whole)


def test_a_folder_has_a_run_once_a_save_is_complete(tmp_path, monkeypatch):
    assert not has_run(tmp_path / "none")
    with monkeypatch.context() as killed:
        killed.setattr("fltoolkit.checkpoint.pack", lambda tree: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            save_run(tmp_path / "run", seed_parties(), Channel())
    assert (tmp_path / "run").exists()
    assert not has_run(tmp_path / "run")
    save_run(tmp_path / "run", seed_parties(), Channel())
    assert has_run(tmp_path / "run")


def test_saving_and_loading_complain(tmp_path):
    parties = seed_parties()
    with pytest.raises(FileNotFoundError, match="no saved run"):
        load_run(tmp_path, parties, Channel())
    save_run(tmp_path, parties, Channel())
    with pytest.raises(ValueError, match=r"holds the parties \['0-alice.state', '1-bob.state'\]"):
        load_run(tmp_path, parties[:1], Channel())
    (tmp_path / "step-000005.tmp").mkdir()  # a save that was interrupted
    (tmp_path / "step-notes").mkdir()
    assert load_run(tmp_path, parties, Channel()) == 0
    later, now = Channel(), Channel()
    later.step, now.step = 20, 10
    save_run(tmp_path, parties, later)
    with pytest.raises(ValueError, match="holds a later save, step-000020"):
        save_run(tmp_path, parties, now)
    assert load_run(tmp_path, parties, Channel()) == 20


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
@pytest.mark.parametrize("name", ["1-bob.state", "channel.state", "SHA256SUMS"])
def test_a_damaged_save_is_refused_and_named(tmp_path, name, damage):
    parties = seed_parties()
    file = save_run(tmp_path, parties, Channel()) / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    kept = {"flipped": data, "cut": data[:-9], "empty": b""}
    file.unlink() if damage == "gone" else file.write_bytes(kept[damage])
    before = copy.deepcopy(parties[0].module.state_dict())
    with pytest.raises(ValueError, match=r"cannot be read as it was saved|holds the parties"):
        load_run(tmp_path, [*seed_parties()], Channel())
    assert all(torch.equal(w, before[n]) for n, w in parties[0].module.state_dict().items())


def test_a_save_of_the_same_step_that_is_interrupted_leaves_the_one_before(tmp_path, monkeypatch):
    alice, bob = seed_parties()
    save_run(tmp_path, [alice, bob], Channel())
    rename = Path.rename

    def crash(path, target):
        if path.suffix == ".tmp":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", crash)
    with pytest.raises(KeyboardInterrupt):
        save_run(tmp_path, [alice, bob], Channel())
    monkeypatch.undo()
    assert load_run(tmp_path, [alice, bob], Channel()) == 0
    save_run(tmp_path, [alice, bob], Channel())
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000"]


def test_a_run_goes_on_with_the_codecs_it_was_saved_with(tmp_path):
    """Other parts are refused before anything is changed, other numbers are warned of."""

    def channel(codec):
        return Channel({"activations": codec} if codec else None)

    parties = seed_parties()
    saved = channel(Pipeline(TopK(0.1)))
    split_step(parties, torch.randn(8, 784), torch.randint(10, (8,)), saved)
    save_run(tmp_path, parties, saved)
    fresh = seed_parties()
    before = copy.deepcopy(fresh[0].module.state_dict())
    for other in (None, Pipeline(TopK(0.1), BFloat16())):
        refused = channel(other)
        refused.send("ann", "ben", "activations", {"h": torch.ones(8)})
        sent, links = refused.transfers[:], [*refused.links.ends]
        with pytest.raises(ValueError, match=r"activations: Pipeline\(TopK\(fraction=0.1"):
            load_run(tmp_path, fresh, refused)
        assert (refused.transfers, [*refused.links.ends]) == (sent, links)
        assert len(sent) == len(links) == 1
    assert all(torch.equal(w, before[n]) for n, w in fresh[0].module.state_dict().items())
    with pytest.warns(UserWarning, match=r"saved with .*0\.1.* goes on with .*0\.5"):
        load_run(tmp_path, fresh, channel(Pipeline(TopK(0.5))))


def test_a_full_disk_leaves_the_save_before_and_no_rest(tmp_path):
    """Files may not grow beyond 20,000 bytes here, so that writing really fails in the middle."""
    resource = pytest.importorskip("resource")
    alice, channel = Party("alice", nn.Linear(100, 100)), Channel()
    save_run(tmp_path, [alice], channel)
    channel.step, before = 4, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"step 4 could not be .*too large.*complete\. Make room"):
            save_run(tmp_path, [alice], channel)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000"]
    assert load_run(tmp_path, [alice], channel) == 0


def momentum_of_stride_0(state):
    state["optimizer"]["state"][0]["momentum_buffer"] = torch.zeros(1).expand(999)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("channel.state", lambda s: s.update(step=-5), "holds -5 where steps"),
        ("channel.state", lambda s: s.update(step="5"), "holds '5' where steps"),
        ("channel.state", lambda s: s.update(transfers=[(1, 2)]), "channel.state does not fit"),
        ("channel.state", lambda s: s.update(links=[("a", "b", "nothing")]), "does not fit"),
        ("1-bob.state", lambda s: s.pop("module"), "1-bob.state does not fit this run: 'module'"),
        ("1-bob.state", lambda s: s["module"].popitem(), "1-bob.state does not fit"),
        ("1-bob.state", momentum_of_stride_0, r"momentum_buffer has the shape \[999\]"),
    ],
)
def test_a_save_that_does_not_fit_changes_nothing(tmp_path, file, change, words):
    def made():
        model = small_net(dropout=False)
        momentum = partial(torch.optim.SGD, momentum=0.9)
        parties = [
            party("alice", model[:4], optimizer=momentum),
            party("bob", model[4:], nn.NLLLoss(), momentum),
        ]
        channel = Channel({"activations": Pipeline(TopK(0.5))})
        x, y = toy_data()
        list(train_split(parties, [(x[:8], y[:8])] * 2, channel))
        return parties, channel

    path = save_run(tmp_path, *made()) / file
    state, sums = state_of(path.read_bytes()), path.with_name("SHA256SUMS")
    change(state)  # and its line of sums with it
    line, content = _line_of_sums(path.read_bytes(), file), written(state)
    path.write_bytes(content)
    sums.write_text(sums.read_text().replace(line, _line_of_sums(content, file)))
    parties, channel = made()
    owners = [channel, *parties]
    before = [written(owner.state_dict()) for owner in owners]
    with pytest.raises(ValueError, match=words):
        load_run(tmp_path, parties, channel)
    assert [written(owner.state_dict()) for owner in owners] == before


def test_a_state_is_read_without_running_code_or_filling_memory(tmp_path):
    folder = save_run(tmp_path, seed_parties(), Channel())
    hostile = io.BytesIO()
    torch.save({"step": 0}, hostile)  # a pickle inside
    bomb = json.dumps({"tuple": [0]}).replace("0", "[" * 100_000 + "]" * 100_000)
    for content in (
        hostile.getvalue(),
        pack({"": torch.frombuffer(bytearray(bomb.encode()), dtype=torch.uint8)}),
        pack({"": torch.zeros(3, dtype=torch.uint8)}),
        pack({"x": torch.zeros(3)}),
    ):
        (folder / "channel.state").write_bytes(content)
        (folder / "SHA256SUMS").write_text(_line_of_sums(content, "channel.state"))
        with pytest.raises(ValueError, match="cannot be read as it was saved"):
            _read(folder / "channel.state")


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", np.float32(1), object()])
def test_what_cannot_be_saved_is_named(value):
    with pytest.raises(TypeError, match="a state that is saved holds tensors"):
        written({"memory": [value]})
