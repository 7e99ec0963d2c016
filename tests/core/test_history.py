import json
import math

import numpy as np
import pytest
import torch

from fltoolkit.history import CHECKED, History, checked_at_call, evaluated

ROWS = [
    {"step": 1, "loss": 2.0, "client": "alice"},
    {"step": 2, "loss": 1.5, "client": "bob", "accuracy": 0.5},
    {"step": 3, "loss": 1.0, "client": "bob", "accuracy": 0.75},
]


def test_a_wrong_word_is_answered_with_the_words_that_a_protocol_takes():
    @checked_at_call
    def protocol(rounds, *, seed=0):
        yield CHECKED

    with pytest.raises(TypeError, match=r"protocol: .* 'rounds'\. It takes rounds, seed$"):
        protocol(num_rounds=3)


def test_columns_rows_and_slices():
    history = History(ROWS)
    assert len(history) == 3
    assert list(history) == ROWS
    assert history.column("loss") == [2.0, 1.5, 1.0]
    assert history[-1]["step"] == 3
    assert history[1:].column("accuracy") == [0.5, 0.75]
    assert history.having("accuracy", "loss").column("step") == [2, 3]
    with pytest.raises(KeyError, match=r"1 of 3 records have no 'accuracy'.*having"):
        history.column("accuracy")


@pytest.mark.parametrize("value", [torch.tensor(1.0), np.float32(1), [1], None, {"a": 1}])
def test_only_plain_values(value):
    with pytest.raises(TypeError, match=r"'loss'.*item\(\)"):
        History([{"loss": value}])


def test_save_and_load(tmp_path):
    path = tmp_path / "run.jsonl"
    History([*ROWS, {"loss": math.inf}]).save(path)
    assert History.load(path) == History([*ROWS, {"loss": math.inf}])
    assert json.loads(path.read_text().splitlines()[1]) == ROWS[1]


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
