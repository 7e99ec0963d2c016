"""Digits by the people who wrote them."""

from experiments.strangers import acquaintances
from fltoolkit import load
from fltoolkit_research import Experiment
from fltoolkit_research.task import Task


def rows(x):
    return {tuple(each.tolist()) for each in x.flatten(1)}


def test_the_other_test_is_as_large_and_by_everybody():
    strangers, others = load("digits", strangers=2), acquaintances(2)
    assert len(strangers.y_test) == len(others.y_test)
    whole, test = load("digits_known_writers"), rows(others.x_test)
    assert all(rows(whole.x_train[whole.owners == writer]) & test for writer in range(14))
    assert rows(others.x_train) | rows(others.x_test) == rows(strangers.x_train) | rows(
        strangers.x_test
    )


def test_digits_can_be_dealt_by_writer():
    task = Task(Experiment("fedavg", num_clients=11, partition="owners"))
    counts = load("digits").owners.unique(return_counts=True)[1].tolist()
    assert sorted(len(y) for _, y in task.shares) == sorted(counts)
