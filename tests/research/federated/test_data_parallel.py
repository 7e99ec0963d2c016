"""Every-step averaging: one worker with the big batch, and going on after a save."""

import pytest
import torch
from core.federated.small import ADAM, network
from core.federated.small import workers as everybody
from torch import nn
from torch.nn.functional import nll_loss

from experiments.replications.lowrank import PowerSGD
from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize
from fltoolkit.federated import Local
from fltoolkit_research.codecs import Sign
from fltoolkit_research.federated import AllGather, Ring, ThroughServer, ddp


def local(**changes):
    how = {"batch_size": None, "optimizer": ADAM, "steps": 1, "clip_norm": 0.5}
    return Local(**how | changes)


@pytest.mark.later
@pytest.mark.parametrize("exchange", [ThroughServer(), AllGather(), Ring()], ids=repr)
def test_with_float32_it_is_one_worker_with_the_big_batch(exchange):
    model, one, workers = network(), network(), everybody()
    records = list(ddp(model, workers, Channel(), steps=6, local=local(), exchange=exchange))
    x, y = (torch.cat(part) for part in zip(*workers.values(), strict=True))
    optimizer, losses = ADAM(one.parameters()), []
    for _ in range(6):
        optimizer.zero_grad()
        loss = nll_loss(one(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(one.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    assert [r["loss"] for r in records] == pytest.approx(losses, abs=1e-6)
    for mine, theirs in zip(model.parameters(), one.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)
    other = network()
    list(ddp(other, workers, Channel(), steps=6, local=local(clip_norm=None), exchange=exchange))
    assert not torch.allclose(other[0].weight, one[0].weight, atol=1e-4)


@pytest.mark.later
@pytest.mark.parametrize("codec", [Pipeline(Sign()), Pipeline(PowerSGD(1)), Pipeline(Quantize(2))])
def test_compressed_gradients_still_learn(codec):
    codecs = {kind: ErrorFeedback(codec) for kind in ("update", "model")}
    model, channel = network(), Channel(codecs)
    records = list(ddp(model, everybody(), channel, steps=60, local=local()))
    assert records[-1]["loss"] < 0.6 * records[0]["loss"]
    assert records[-1]["nbytes"] == channel.nbytes()


def test_what_it_cannot_do_is_refused():
    norm = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.LogSoftmax(1))
    for words, model, steps, how in (
        ("averaged at every step", network(), 2, {"steps": 2}),
        (r"buffers .*running_mean", norm, 2, {}),
        (r"prox=0\.1", network(), 2, {"prox": 0.1}),
        ("leaves nothing to train", network(), range(2, 2), {}),
    ):
        with pytest.raises(ValueError, match=words):
            ddp(model, everybody(), Channel(), steps=steps, local=local(**how))
    broken = network()
    broken[0].weight.data.fill_(torch.inf)
    with pytest.raises((FloatingPointError, ValueError)):
        list(ddp(broken, everybody(), Channel(), steps=1, local=local()))
