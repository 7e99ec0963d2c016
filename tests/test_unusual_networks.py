"""Networks with buffers or sparse gradients learn in every protocol as they should.

Buffers, such as the running variances of BatchNorm, arrive exactly.
"""

from functools import partial

import pytest
import torch
from torch import nn

from experiments.replications.dgc import DGC
from experiments.replications.drift import scaffold
from experiments.replications.yogi import Yogi
from fltoolkit import Channel
from fltoolkit.codecs import ErrorFeedback, Float8, Pipeline, Quantize, TopK
from fltoolkit.federated import Local, Server, fedavg
from fltoolkit.models import seeded
from fltoolkit_research.codecs import Difference, RandomK, Sign
from fltoolkit_research.federated import AllGather, GaussianDP, Ring, ddp, diloco
from fltoolkit_research.secrecy import Grid, SecureSum


class Masked(nn.Module):
    """A layer with BatchNorm, a mask and small whole numbers as buffers."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.register_buffer("mask", torch.tensor([True, False] * 3))
        self.register_buffer("steps", torch.tensor([250], dtype=torch.uint8))

    def forward(self, x):
        if self.training and self.steps < 255:
            self.steps += 1
        return self.last(self.norm(self.first(x)).where(self.mask, 0.0)).log_softmax(1)


def clients(scale=0.1):
    """Samples of so little variance that all running variances fall."""
    generator = torch.Generator().manual_seed(0)
    xs = [(k + 1) * scale * torch.randn(8, 4, generator=generator) for k in range(3)]
    return {f"client_{k}": (x, (x.sum(1) > 0).long()) for k, x in enumerate(xs)}


def made():
    with seeded(0):
        return Masked()


CODECS = {
    "none": None,
    "RandomK": Pipeline(RandomK(0.05)),
    "1 bit, residual": ErrorFeedback(Pipeline(Quantize(1))),
    "top-k": ErrorFeedback(Pipeline(TopK(0.05), Quantize(2))),
    "signs": Pipeline(Sign()),
    "8-bit floats": Pipeline(Float8()),
    "DGC": Pipeline(DGC(0.1)),
}
AVERAGING = {
    "fedavg": partial(fedavg, cohort=3),
    "fedavg, Yogi": None,
    "scaffold": partial(scaffold, cohort=3, server_lr=8.0),
    "diloco": diloco,
    "diloco, ring": partial(diloco, exchange=Ring()),
    "diloco, gather": partial(diloco, exchange=AllGather()),
}


@pytest.mark.later
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("protocol", AVERAGING)
def test_running_statistics_stay_statistics(protocol, codec):
    model = made()
    run = AVERAGING[protocol] or partial(
        fedavg, cohort=3, server=Server(optimizer=Yogi(model.parameters(), lr=0.1))
    )
    codecs = {} if CODECS[codec] is None else {"update": CODECS[codec]}
    local = Local(4, lr=0.05, steps=2)
    for _ in run(model, clients(), Channel(codecs), rounds=3, local=local):
        assert model.norm.running_var.min() > 0
        assert model.mask.tolist() == [True, False] * 3
        assert 250 <= model.steps.item() <= 255
    assert model.norm.num_batches_tracked > 2


@pytest.mark.parametrize("codec", [*CODECS][1:])
def test_the_mean_of_the_buffers_is_that_without_a_codec(codec):
    ends = []
    for codecs in ({}, {"update": CODECS[codec], "model": Difference(Pipeline(Quantize(8)))}):
        model = made()
        # weights that do not move: so the statistics are the same whatever arrives
        local = Local(4, lr=1e-30, steps=2)
        list(fedavg(model, clients(), Channel(codecs), rounds=1, cohort=3, local=local))
        ends.append({name: tensor.clone() for name, tensor in model.named_buffers()})
    for name, tensor in ends[0].items():
        exact = name in ("mask", "steps", "norm.num_batches_tracked")
        torch.testing.assert_close(ends[1][name], tensor, rtol=0 if exact else 0.05, atol=0.02)


def test_masks_go_by_the_majority():
    """A buffer of True and False that clients change in unlike ways."""

    class Flips(Masked):
        def forward(self, x):
            if self.training and x.abs().mean() > 4:
                self.mask = ~self.mask
            return super().forward(x)

    with seeded(0):
        model = Flips()
    local = Local(8, lr=0.01, steps=1)
    list(fedavg(model, clients(scale=3), Channel(), rounds=1, cohort=3, local=local))
    assert model.mask.tolist() == [False, True] * 3


@pytest.mark.parametrize("mean", [GaussianDP(1.0, 0.1), SecureSum(Pipeline(Grid(8, top=1.0)))])
def test_a_mean_that_would_spoil_them_is_refused(mean):
    local, server = Local(4, lr=0.05, steps=1), Server(mean=mean)
    with pytest.raises(ValueError, match="running_mean"):
        fedavg(made(), clients(), Channel(), rounds=1, cohort=3, local=local, server=server)


@pytest.mark.parametrize(
    ("run", "how"),
    [
        (partial(fedavg, rounds=2, cohort=2), {"prox": 0.1}),
        (partial(fedavg, rounds=2, cohort=2), {"clip_norm": 0.1}),
        (partial(scaffold, rounds=2, cohort=2), {}),
        (partial(ddp, steps=2), {}),
    ],
)
def test_sparse_gradients_train_as_dense_ones_do(run, how):
    ids, y = torch.arange(24).reshape(8, 3) % 5, torch.arange(8) % 2
    ends = []
    for sparse in (True, False):
        with seeded(0):
            layers = nn.Embedding(5, 2, sparse=True), nn.Flatten(), nn.Linear(6, 2)
            model = nn.Sequential(*layers, nn.LogSoftmax(dim=1))
        model[0].sparse = sparse
        local = Local(4, lr=0.1, steps=1, **how)
        list(run(model, {"a": (ids, y), "b": (ids, y)}, Channel(), local=local))
        ends.append(model.state_dict())
    torch.testing.assert_close(*ends, rtol=0, atol=1e-6)
