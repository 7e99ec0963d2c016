"""The page of one sum has the tables of the stored results; the attack finds what it must."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from experiments import one_sum_cifar, one_sum_encoder, one_sum_leak, one_sum_text, strangers
from experiments.language.task import Task
from experiments.runs import read, rows_of
from fltoolkit import load
from fltoolkit_research import Experiment
from fltoolkit_research.data import load_text
from fltoolkit_research.task import Task as Dealt


def test_the_page_has_the_stored_tables():
    settings = list(strangers.settings())
    rows = rows_of(None, settings, read(strangers.RESULTS))
    assert len(rows) == len(settings) == 2 * len(strangers.ROWS)
    assert all(len(runs) == len(strangers.DRAWS) for _, runs in rows)
    assert strangers.PAGE.shows(strangers.table(rows))
    sizes = [one_sum_cifar.Setting(filters) for filters in (28, 57, 114)]
    stored = read(one_sum_cifar.RESULTS)
    assert one_sum_cifar.PAGE.shows(one_sum_cifar.table(rows_of(None, sizes, stored)))
    found = read(one_sum_encoder.RESULTS)
    assert {row["name"] for row in found.values()} == {*one_sum_encoder.ROWS}
    assert one_sum_encoder.PAGE.shows(one_sum_encoder.table(found))


def test_features_that_tell_the_classes_need_no_more_than_their_sum():
    y = torch.arange(500) % 5
    z = torch.randn(500, 256, generator=torch.Generator().manual_seed(0)) / 4
    z[:, :5] += 5 * torch.nn.functional.one_hot(y, 5)
    pictures = torch.zeros(500, 3, 32, 32, dtype=torch.uint8)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 5))
    of = one_sum_encoder.World(0, model, pictures, y, y, (z, y), {"256": [z, z]})
    owned = {f"owner_{k}": rows for k, rows in enumerate(torch.arange(500).split(50))}
    short, right = one_sum_encoder.summed(of, owned, "256")
    assert right > 0.95
    assert short < one_sum_encoder.summed(of, owned, "256", bits=12)[0]
    assert one_sum_encoder.averaged(of, owned, whole=False)[1] > 0.95


def test_leverage_tells_members_where_a_sum_has_room_for_no_others():
    draw = torch.Generator().manual_seed(0)
    few, many, others = (torch.randn(n, 30, generator=draw) for n in (20, 3000, 500))
    assert one_sum_leak.attacked((few.T @ few).double(), few, others) > 0.999
    assert one_sum_leak.attacked((many.T @ many).double(), many, others) == pytest.approx(
        0.5, abs=0.05
    )


@pytest.mark.later
def test_counts_of_a_text_are_those_of_the_page_and_of_a_plain_n_gram():
    hand = one_sum_text.grams(torch.tensor([[1, 2, 3]]), torch.tensor([[2, 3, 4]]), 3, 10)
    assert hand.tolist() == [912, 123, 234]
    text, n = load_text("topics"), 3
    base, (x, y) = len(text.alphabet) + 1, (part[:200] for part in text.windows(16))
    train, test = (
        one_sum_text.grams(x[:150], y[:150], n, base),
        one_sum_text.grams(x[150:], y[150:], n, base),
    )
    seen = Counter((m, gram % base**m) for gram in train.tolist() for m in range(1, n + 1))
    total, kinds = Counter(), Counter()
    for (m, gram), count in seen.items():
        total[m, gram // base] += count
        kinds[m, gram // base] += 1
    nats = 0.0
    for gram in test.tolist():
        p = 1 / len(text.alphabet)
        for m in range(1, n + 1):
            if total[before := (m, gram % base**m // base)]:
                p = (seen[m, gram % base**m] + kinds[before] * p) / (total[before] + kinds[before])
        nats -= math.log(p)
    found = one_sum_text.nats(np.unique(train, return_counts=True), n, test, base)
    assert found == pytest.approx(nats / len(test))
    assert " | ".join(one_sum_text.row(2, Task())) in one_sum_text.PAGE.path.read_text("utf-8")


@pytest.mark.later
def test_an_owner_is_given_away_and_the_sum_less():
    seen = [*one_sum_leak.messages(seed=0)]
    views, strangers = (
        {name: one_sum_leak.attacked(*mine, others[k]) for name, *mine, others in seen}
        for k in (0, 1)
    )
    assert views["one owner's message, float32"] > 0.99
    assert 0.6 < views["the sum of ten owners, float32"] < 0.75
    assert strangers["the sum of ten owners, float32"] > views["the sum of ten owners, float32"]
    assert views["one owner's message, 3 bits"] < views["one owner's message, 5 bits"] < 0.97


def pictures_of(x):
    return {tuple(each.tolist()) for each in x.flatten(1)}


def test_the_other_test_is_as_large_and_by_everybody():
    unknown, others = load("digits", strangers=2), strangers.acquaintances(2)
    assert len(unknown.y_test) == len(others.y_test)
    whole, test = load("digits_known_writers"), pictures_of(others.x_test)
    assert all(pictures_of(whole.x_train[whole.owners == writer]) & test for writer in range(14))
    first, second = (
        pictures_of(each.x_train) | pictures_of(each.x_test) for each in (others, unknown)
    )
    assert first == second


def test_digits_can_be_dealt_by_writer():
    task = Dealt(Experiment("fedavg", num_clients=11, partition="owners"))
    counts = load("digits").owners.unique(return_counts=True)[1].tolist()
    assert sorted(len(y) for _, y in task.shares) == sorted(counts)
