"""Meters for torch.distributed: real messages, equal gradients and means, bytes counted."""

import copy

import pytest
import torch
import torch.distributed as dist
from distributed_scenarios import start
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fltoolkit import Channel
from fltoolkit.codecs import Entropy, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.models import seeded
from fltoolkit_engines.ddp_hook import averaged, metered

pytestmark = pytest.mark.slow
STEPS, SIZE = 15, 2
CODECS = {
    "nothing": {},
    "few": {"update": ErrorFeedback(Pipeline(TopK(0.1), Quantize(8), Entropy()))},
}


def train(rank, tell):
    dist.init_process_group("gloo")
    with seeded(0):
        first = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 2))
    out = {}
    for name, codecs in [("torch", None), *CODECS.items()]:
        model = DistributedDataParallel(copy.deepcopy(first), bucket_cap_mb=1e-3)
        channel = Channel(codecs)
        if codecs is not None:
            model.register_comm_hook(None, metered(channel))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        draw = torch.Generator().manual_seed(rank)
        for _ in range(STEPS):
            x = torch.randn(16, 20, generator=draw)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
            loss.backward()
            optimizer.step()
        weights = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
        out[name] = weights, float(loss), channel.step, [tuple(t) for t in channel.transfers]
    few, channel = Channel({"model": Pipeline(Quantize(8), Entropy())}), Channel()
    held = {"w": torch.arange(3.0) * (rank + 1), "n": torch.tensor(7), "b": torch.ones(300) * rank}
    held |= {"h": torch.tensor([40_000.0]).half(), "u": torch.tensor([200], dtype=torch.uint8)}
    means = [{name: v.tolist() for name, v in averaged(c, held).items()} for c in (channel, few)]
    out["averaged"] = *means, channel.nbytes(), few.nbytes()
    tell((rank, out))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks():
    told = dict(start(train, SIZE))
    return [told[rank] for rank in range(SIZE)]


def test_without_a_codec_it_is_torchs_own_mean(ranks):
    for one in ranks:
        assert one["nothing"][0] == pytest.approx(one["torch"][0], abs=1e-6)


@pytest.mark.parametrize("name", CODECS)
def test_all_processes_hold_the_same_weights_and_the_same_ledger(ranks, name):
    (one, loss, step, sent), (other, _, _, also) = (each[name] for each in ranks)
    assert one == other
    assert sent == also
    assert step == STEPS
    assert loss < 0.6
    assert {(t[1], t[2], t[3]) for t in sent} == {
        ("rank 0", "rank 1", "update"),
        ("rank 1", "rank 0", "update"),
    }


def test_what_is_counted(ranks):
    plain, few = (sum(t[4] for t in ranks[0][name][3]) for name in CODECS)
    values = 20 * 30 + 30 + 30 * 2 + 2
    assert 0 < plain - 2 * STEPS * 4 * values < 2 * STEPS * 4 * 16  # headers of at most 4 buckets
    assert few < plain / 8


def test_state_dicts_averaged_by_hand(ranks):
    (mean, coarse, nbytes, fewer), same = (each["averaged"] for each in ranks)
    assert mean == {"w": [0, 1.5, 3], "n": 7, "b": [0.5] * 300, "h": [40_000], "u": [200]}
    assert coarse["w"] == pytest.approx(mean["w"], abs=0.05)
    assert coarse == same[1]
    assert 2 * 4 * 304 < nbytes < 2 * 4 * 304 + 140
    assert fewer < nbytes / 3
