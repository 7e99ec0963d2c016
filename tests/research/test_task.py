import pytest
import torch

from fltoolkit import load
from fltoolkit.data import Samples, partition_dirichlet
from fltoolkit_research import Experiment, num_steps, run
from fltoolkit_research.data import owner_numbers, partition_shards
from fltoolkit_research.task import dealt_out

SMALL = {"num_samples": 200, "rounds": 1}


def test_partitions_and_held_out_samples():
    data = load("digits_known_writers").flat()
    for text, direct in (
        ("shards(1)", partition_shards(data.y_train, 5, shards_per_client=1, seed=2)),
        ("dirichlet(0.2)", partition_dirichlet(data.y_train, 5, alpha=0.2, seed=2)),
    ):
        experiment = Experiment("relay", num_clients=5, partition=text, seed=2)
        for mine, rows in zip(dealt_out(data, experiment), direct, strict=True):
            assert torch.equal(mine, rows)
    held = Experiment("split", validation=0.25, **SMALL)
    assert num_steps(held) == -(-150 // 32)
    assert num_steps(Experiment("split", **SMALL)) == -(-200 // 32)
    assert run(held) != run(Experiment("split", **SMALL))
    with pytest.raises(ValueError, match="digits has 1,427"):
        run(Experiment(num_samples=2000))


def test_owners_may_be_names():
    x, y = torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)

    def numbers(owners):
        return owner_numbers(Samples(x, y, x, y, owners=owners))

    assert numbers(["ben", "ann", "cid", "ben"]).tolist() == [1, 0, 2, 1]
    with pytest.raises(ValueError, match="3 owners for 4 training samples"):
        numbers(["ben", "ann", "cid"])
    for missing in (None, float("nan")):
        with pytest.raises(ValueError, match=f"sample 2 has the owner {missing}"):
            numbers(["ben", "ann", missing, "ben"])
    with pytest.raises(ValueError, match="sample 1 has the owner nan"):
        numbers(torch.tensor([1.0, torch.nan, 2.0, 3.0]))


def test_owners_keep_their_samples_together():
    x, y = torch.arange(12.0)[:, None], torch.zeros(12)
    data = Samples(x, y, x, y, owners=torch.arange(12) % 4)
    for clients in (4, 3):
        rows = dealt_out(data, Experiment("fedavg", num_clients=clients, partition="owners"))
        whose = [{*data.owners[mine].tolist()} for mine in rows]
        assert sorted(owner for mine in whose for owner in mine) == [0, 1, 2, 3]
        assert sum(map(len, rows)) == 12
    with pytest.raises(ValueError, match="num_clients=5: must be 1 to 4, the owners"):
        dealt_out(data, Experiment("fedavg", num_clients=5, partition="owners"))
    with pytest.raises(ValueError, match="own data does not say whose each sample is"):
        dealt_out(Samples(x, y, x, y), Experiment("fedavg", num_clients=2, partition="owners"))
