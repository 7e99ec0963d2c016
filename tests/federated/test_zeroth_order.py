"""Seeds and scalars: every client rebuilds the server's model, and no message has its size."""

import pytest
import torch
from federated.small import network
from federated.small import workers as some
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated import Fleet, Local, decomfl
from fltoolkit.federated.zeroth_order import direction, followed

FOUR = some(4)
LOCAL = Local(4, lr=0.05, steps=3)


def trained(model, rounds=6, cohort=2, local=LOCAL, **how):
    channel = Channel()
    records = list(decomfl(model, FOUR, channel, rounds=rounds, cohort=cohort, local=local, **how))
    return channel, records


def loss(model):
    x, y = (torch.cat(parts) for parts in zip(*FOUR.values(), strict=True))
    return nn.functional.nll_loss(model(x), y)


def test_whoever_missed_rounds_rebuilds_the_servers_weights_to_the_bit():
    model, fleet, kept = network(), Fleet(), []
    rounds = decomfl(model, FOUR, Channel(), rounds=8, cohort=1, local=LOCAL, fleet=fleet)
    for _ in rounds:
        kept.append({name: t.clone() for name, t in model.state_dict().items()})
    seen = {k: int(own["seen"]) for k, own in fleet.weights.items()}
    assert len(set(seen.values())) > 2  # rounds in which they last took part
    for k, own in fleet.weights.items():
        if seen[k]:
            assert all(torch.equal(own[n], t) for n, t in kept[seen[k] - 1].items()), k


def test_messages_have_the_same_length_for_a_larger_model():
    wide = nn.Sequential(nn.Linear(5, 300), nn.Tanh(), nn.Linear(300, 3), nn.LogSoftmax(1))
    small, large = trained(network()), trained(wide, local=Local(4, lr=1e-4, steps=3))
    assert small[1][-1]["nbytes"] == large[1][-1]["nbytes"] == small[0].nbytes()


def test_one_step_of_everybody_is_a_step_down_the_mean_loss_along_one_direction():
    model, fleet = network(), Fleet()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    loss(model).backward()
    gradient = {name: p.grad.clone() for name, p in model.named_parameters()}
    trained(model, 1, 4, Local(None, lr=0.05, steps=1), mu=1e-2, fleet=fleet)
    (sent,) = fleet.waiting
    z = direction(start, int(sent["seeds"][0]))
    along = sum((z[name] * g).sum() for name, g in gradient.items())
    assert torch.allclose(sent["slopes"][0], along, rtol=1e-2)
    end = followed(start, sent["seeds"], sent["slopes"], 0.05)
    assert all(torch.equal(model.state_dict()[name], t) for name, t in end.items())


def test_it_learns_and_goes_on_where_it_was():
    straight, again, fleet = network(), network(), Fleet()
    before = loss(straight)
    trained(straight, 60)
    assert loss(straight) < 0.9 * before
    trained(again, 20, fleet=fleet)
    restored = Fleet()
    restored.load_state_dict(fleet.state_dict())
    trained(again, range(20, 60), fleet=restored)
    assert torch.equal(straight[0].weight, again[0].weight)


def test_what_does_not_fit_is_refused_at_the_call():
    norm = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3), nn.LogSoftmax(1))
    for words, model, how in (
        ("nothing else", network(), {"local": Local(4, lr=0.1, epochs=1)}),
        ("mu=0", network(), {"mu": 0}),
        ("BatchNorm", norm, {}),
    ):
        with pytest.raises(ValueError, match=words):
            trained(model, **how)
