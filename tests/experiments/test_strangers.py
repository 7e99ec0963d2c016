"""Digits by the people who wrote them."""

import torch

from experiments.strangers import digits_by_writer
from fltoolkit import load
from fltoolkit_research import Experiment
from fltoolkit_research.task import Task


def rows(x):
    return {tuple(each.tolist()) for each in x.flatten(1)}


def test_the_people_of_the_test_wrote_no_training_image():
    data, whole = digits_by_writer(draw=1), load("digits")
    assert len(data.owners.unique()) == 11
    by = {w: rows(whole.x_train[whole.owners == w]) for w in range(14)}
    strangers = [w for w in range(14) if w not in data.owners]
    assert all(by[w] <= rows(data.x_test) for w in strangers)
    assert not any(by[w] & rows(data.x_test) for w in data.owners.tolist())


def test_the_other_test_is_as_large_and_by_everybody():
    strangers, others = digits_by_writer(draw=2), digits_by_writer(draw=2, unseen=False)
    assert len(strangers.y_test) == len(others.y_test)
    assert len(others.owners.unique()) == 14
    assert rows(others.x_train) | rows(others.x_test) == rows(strangers.x_train) | rows(
        strangers.x_test
    )


def test_a_draw_repeats_and_another_differs():
    one, again, other = digits_by_writer(3), digits_by_writer(3), digits_by_writer(4)
    assert torch.equal(one.x_test, again.x_test)
    assert set(one.owners.tolist()) != set(other.owners.tolist())


def test_digits_can_be_dealt_by_writer():
    task = Task(Experiment("fedavg", num_clients=14, partition="owners"))
    counts = load("digits").owners.bincount().tolist()
    assert sorted(len(y) for _, y in task.shares) == sorted(counts)
