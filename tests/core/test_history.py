import math
from functools import partial
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from torch import nn

from fltoolkit import SGD, Batches, Channel, Local, LossGate, Party, Server
from fltoolkit.federated import fedavg, interval_averaging, mean_of_senders
from fltoolkit.history import CHECKED, History, checked_at_call, evaluated
from fltoolkit.split import (
    train_async,
    train_async_relay,
    train_relay,
    train_split,
    train_splitfed,
    train_uploading,
    train_vertical,
)
from fltoolkit_research.federated import ddp, diloco, one_sum
from fltoolkit_research.pooled import pool

ROWS = [
    {"step": 1, "loss": 2.0, "client": "alice"},
    {"step": 2, "loss": 1.5, "client": "bob", "accuracy": 0.5},
    {"step": 3, "loss": math.inf, "client": "bob", "accuracy": 0.75},
]


def test_columns_rows_and_slices():
    history = History(ROWS)
    assert len(history) == 3
    assert list(history) == ROWS
    assert history.column("loss") == [2.0, 1.5, math.inf]
    assert history[-1]["step"] == 3
    assert history[1:].column("accuracy") == [0.5, 0.75]
    assert history.having("accuracy", "loss").column("step") == [2, 3]
    with pytest.raises(KeyError, match=r"1 of 3 records have no 'accuracy'.*having"):
        history.column("accuracy")


@pytest.mark.parametrize("value", [torch.tensor(1.0), np.float32(1), [1], None, {"a": 1}])
def test_only_plain_values(value):
    with pytest.raises(TypeError, match=r"'loss'.*item\(\)"):
        History([{"loss": value}])


def test_a_path_grows_resumes_and_is_rewound(tmp_path):
    path = tmp_path / "run.jsonl"
    history = History(path=path)
    for row in ROWS[:2]:
        history.append(row)
    assert History.load(path) == History(ROWS[:2])  # on disk before the run ends
    again = History(path=path)
    assert list(again) == ROWS[:2]
    again.append(ROWS[2])
    assert History.load(path) == History(ROWS)
    again.rewind(1)
    again.append(ROWS[1])
    assert History.load(path) == History(ROWS[:2])


def test_an_interrupted_write_loses_only_itself(tmp_path):
    path = tmp_path / "run.jsonl"
    History(ROWS).save(path)
    path.write_bytes(path.read_bytes()[:-7])  # the machine died in the middle of record 3
    with pytest.warns(UserWarning, match="1 lines cannot be read and are left out, first line 3"):
        assert History.load(path) == History(ROWS[:2])
    with pytest.warns(UserWarning, match="left out"):
        history = History(path=path)
    history.append(ROWS[2])  # on a line of its own, and what was cut off stays in the file
    with pytest.warns(UserWarning, match="left out"):
        assert History.load(path) == History(ROWS)
    path.write_bytes(path.read_bytes()[:5])  # in the middle of record 1
    with pytest.warns(UserWarning, match="left out"):
        assert len(History(path=path)) == 0


@pytest.mark.parametrize("bad", ["5", "not json", '{"step": 2', "[" * 10**5])
def test_damage_in_the_middle_costs_one_record_and_names_the_line(tmp_path, bad):
    path = tmp_path / "run.jsonl"
    path.write_text(f'{{"step": 1}}\n{bad}\n{{"step": 3}}\n')
    for read in (History.load, lambda path: History(path=path)):
        with pytest.warns(UserWarning, match="1 lines cannot be read .* first line 2"):
            assert read(path).column("step") == [1, 3]
    path.write_text(f"{bad}\n")
    with pytest.raises(ValueError, match="holds no lines of JSON: line 1"):
        History.load(path)


def test_evaluated_sees_the_model_of_its_record():
    state = {"step": 0}

    def training():
        for step in range(31, 41):  # a run that goes on
            state["step"] = step
            yield {"step": step}

    out = list(evaluated(training(), lambda: {"seen": state["step"]}, every=4))
    assert [r["step"] for r in out if "seen" in r] == [32, 36, 40]
    assert all(r.get("seen", r["step"]) == r["step"] for r in out)
    with pytest.raises(ValueError, match="every=0"):
        next(evaluated([{}], dict, every=0))


def test_a_protocol_without_its_mark_is_found_at_the_call():
    @checked_at_call
    def protocol():
        yield {"step": 1}

    with pytest.raises(TypeError, match="protocol has no `yield CHECKED`"):
        protocol()


def test_no_step_is_taken_at_the_call():
    taken = []

    @checked_at_call
    def protocol(*, steps):
        """What it does."""
        yield CHECKED
        for step in range(steps):
            taken.append(step)
            yield {"step": step}

    records = protocol(steps=2)
    assert taken == []
    assert next(records) == {"step": 0}
    records.close()
    assert taken == [0]
    assert protocol.__doc__ == "What it does."


def part(name, **how):
    module = nn.Sequential(nn.Linear(2, 2), nn.LogSoftmax(dim=1))
    return Party(name, module, SGD(module.parameters(), lr=0.1), **how)


X, Y = torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)
ANN, BEA = "ann", "bea"
DATA, TWO = Batches(X, Y, 2, seed=0), {ANN: (X, Y), BEA: (X, Y)}
GATE = partial(LossGate, 0.5)
ONCE = {"local": Local(batch_size=2, lr=0.1, steps=1)}
SENDERS = Server(mean=mean_of_senders)
PROTOCOLS = {
    train_split: lambda bob: ([part(ANN), bob], DATA.epochs(1)),
    train_vertical: lambda bob: ([part(ANN)], bob, [((X,), Y)]),
    train_relay: lambda bob: ([part(ANN), part(BEA)], bob, [DATA, DATA], {"num_rounds": 2}),
    train_splitfed: lambda bob: ([part(ANN)], bob, [DATA], {"num_rounds": 2, "version": 1}),
    train_async: lambda bob: (part(ANN), bob, DATA, {"gate": GATE(), "num_epochs": 2}),
    train_async_relay: lambda bob: ([part(ANN)], bob, [DATA], {"gate": GATE(), "num_rounds": 2}),
    train_uploading: lambda bob: (part(ANN), bob, DATA.epochs(1), {"gate": GATE(every=1)}),
    fedavg: lambda bob: (bob.module, TWO, {"rounds": 2, "cohort": 2, **ONCE, "server": SENDERS}),
    interval_averaging: lambda bob: (bob.module, TWO, {"num_averages": 2, **ONCE}),
    ddp: lambda bob: (bob.module, TWO, {"steps": 2, **ONCE}),
    diloco: lambda bob: (bob.module, TWO, {"rounds": 2, **ONCE}),
    one_sum: lambda bob: (TWO, nn.Identity(), bob),
    pool: lambda bob: (TWO, bob, {"rounds": 1, "batch_size": 2, "seed": 0}),
}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_records_hold_what_their_type_says(protocol):
    *args, how = PROTOCOLS[protocol](part("bob", loss_fn=nn.NLLLoss()))
    args, how = (args, how) if isinstance(how, dict) else ([*args, how], {})
    (kind,) = get_args(get_type_hints(protocol)["return"])
    records = list(protocol(*args, channel=Channel(), **how))
    assert records
    for record in records:
        assert kind.__required_keys__ <= record.keys() <= get_type_hints(kind).keys()
        assert all(isinstance(record[key], get_type_hints(kind)[key]) for key in record)
