"""Seeds and scalars: every client rebuilds the server's model, and no message has its size."""

import numpy as np
import pytest
import torch
from core.federated.small import FOUR, network
from torch import nn

from experiments.replications.zeroth_order import Directions, Followed, decomfl, direction, fedkseed
from fltoolkit.channel import Channel
from fltoolkit.federated import Local
from fltoolkit.federated.client import batch_indices
from fltoolkit.federated.workers import client_seed

LOCAL = Local(4, lr=0.05, steps=3)


def trained(model, rounds=6, cohort=2, local=LOCAL, **how):
    channel = Channel()
    records = list(decomfl(model, FOUR, channel, rounds=rounds, cohort=cohort, local=local, **how))
    return channel, records


def test_whoever_missed_rounds_rebuilds_the_servers_weights_to_the_bit():
    model, memory, kept = network(), Followed(), []
    rounds = decomfl(model, FOUR, Channel(), rounds=8, cohort=1, local=LOCAL, memory=memory)
    for _ in rounds:
        kept.append({name: t.clone() for name, t in model.state_dict().items()})
    seen = memory.seen
    assert len(set(seen.values())) > 2  # rounds in which they last took part
    for k, own in memory.weights.items():
        if seen[k]:
            assert all(torch.equal(own[n], t) for n, t in kept[seen[k] - 1].items()), k


def test_messages_have_the_same_length_for_a_larger_model():
    wide = nn.Sequential(nn.Linear(5, 300), nn.Tanh(), nn.Linear(300, 3), nn.LogSoftmax(1))
    small, large = trained(network()), trained(wide, local=Local(4, lr=1e-4, steps=3))
    assert small[1][-1]["nbytes"] == large[1][-1]["nbytes"] == small[0].nbytes()


def loss_at(weights, x, y):
    return nn.functional.nll_loss(torch.func.functional_call(network(), weights, (x,)), y)


def slope_by_hand(w, z, x, y, mu=1e-3):
    there, back = ({n: w[n] + sign * mu * z[n] for n in w} for sign in (1, -1))
    return float(loss_at(there, x, y) - loss_at(back, x, y)) / (2 * mu)


@pytest.mark.later
def test_an_evolution_strategy_of_low_rank_is_the_plain_loop():
    model, memory, lr, size = network(), Followed(), 0.05, 5
    w = {name: p.detach().clone() for name, p in model.named_parameters()}
    how = {"along": Directions(size, rank=1), "memory": memory}
    trained(model, 3, 4, Local(None, lr=lr, steps=1), **how)
    for sent in memory.past:
        total = {name: torch.zeros_like(t) for name, t in w.items()}
        for seed in sent["seeds"].tolist():
            draw = torch.Generator().manual_seed(seed)
            z = {}
            for name, t in w.items():
                if t.dim() == 1:
                    z[name] = torch.randn(len(t), generator=draw)
                else:
                    a = torch.randn(len(t), 1, generator=draw)
                    z[name] = a * torch.randn(1, t.shape[1], generator=draw)
            score = np.mean([slope_by_hand(w, z, x, y) for x, y in FOUR.values()])
            total = {name: total[name] + score * z[name] for name in w}
        w = {name: w[name] - lr / size * total[name] for name in w}
    for name, p in model.named_parameters():
        torch.testing.assert_close(p, w[name], rtol=1e-3, atol=1e-4)  # slopes are float32


def test_fedkseed_is_the_plain_loop():
    model, lr, num, channel = network(), 0.05, 6, Channel()
    first = {name: p.detach().clone() for name, p in model.named_parameters()}
    list(fedkseed(model, FOUR, channel, rounds=4, cohort=2, local=LOCAL, along=Directions(num)))
    seeds = np.random.default_rng([0, 2]).integers(2**31, size=num, dtype=np.int32).tolist()
    zs, sums = [direction(first, s) for s in seeds], torch.zeros(num)

    def rebuilt():
        return {n: t - lr * sum(sums[j] * zs[j][n] for j in range(num)) for n, t in first.items()}

    for round_ in range(4):
        sent = [t for t in channel.transfers if t.step == round_ + 1 and t.kind == "control"]
        base = rebuilt()
        for k in (t.receiver for t in sent):
            (x, y), w = FOUR[k], base
            batches = batch_indices(len(y), LOCAL, client_seed(0, round_, k))
            random = np.random.default_rng([client_seed(0, round_, k), 1])
            for j, rows in zip(random.integers(num, size=3, dtype=np.int32), batches, strict=True):
                g = slope_by_hand(w, zs[j], x[rows], y[rows])
                w = {n: w[n] - lr * g * zs[j][n] for n in w}
                sums[j] += g / len(sent)
    for name, t in rebuilt().items():
        torch.testing.assert_close(model.state_dict()[name], t, rtol=1e-3, atol=1e-4)
