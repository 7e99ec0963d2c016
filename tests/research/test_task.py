"""Data dealt out to clients, and what is held out."""

import pytest
import torch

from fltoolkit import load
from fltoolkit.data import partition_dirichlet, partition_shards
from fltoolkit.research import Experiment, num_steps, run
from fltoolkit.research.task import dealt_out

SMALL = {"num_samples": 200, "rounds": 1}


def test_partitions_and_held_out_samples():
    data = load("digits").flat()
    for text, direct in (
        ("shards(1)", partition_shards(data.y_train, 5, shards_per_client=1, seed=2)),
        ("dirichlet(0.2)", partition_dirichlet(data.y_train, 5, alpha=0.2, seed=2)),
    ):
        experiment = Experiment("relay", num_clients=5, partition=text, seed=2)
        for mine, rows in zip(dealt_out(data.y_train, experiment), direct, strict=True):
            assert torch.equal(mine, rows)
    held = Experiment("split", validation=0.25, **SMALL)
    assert num_steps(held) == -(-150 // 32)
    assert num_steps(Experiment("split", **SMALL)) == -(-200 // 32)
    assert run(held) != run(Experiment("split", **SMALL))
    with pytest.raises(ValueError, match="digits has 1,437"):
        run(Experiment(num_samples=2000))
