"""Changes of a frozen model against the plain formulas, and what they cost as messages."""

import copy

import pytest
import torch
from torch import nn

from fltoolkit import Channel, fedavg
from fltoolkit.federated import Local
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.models import seeded
from fltoolkit_research.finetuning import full, lora


def small() -> nn.Sequential:
    with seeded(0):
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.LogSoftmax(dim=1))


def samples(n=12):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator)


WAYS = {
    "full": lambda model: full(model),
    "LoRA": lambda model: lora(model, 2, seed=0),
    "FFA-LoRA": lambda model: lora(model, 2, freeze_a=True, seed=0),
    "last layer": lambda model: full(model, where=lambda name: name.startswith("2.")),
}


@pytest.mark.parametrize("way", WAYS)
def test_it_begins_as_the_pretrained_model_and_with_zeros(way):
    model, (x, _) = small(), samples()
    tuned = WAYS[way](model)
    assert torch.equal(tuned(x), model(x))
    assert all(not tensor.any() for tensor in tuned.state_dict().values())


@pytest.mark.parametrize("way", WAYS)
def test_the_merged_weights_compute_the_same_and_the_model_is_left_alone(way):
    model, (x, y) = small(), samples()
    before = copy.deepcopy(model.state_dict())
    tuned = WAYS[way](model)
    optimizer = torch.optim.SGD(tuned.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.nll_loss(tuned(x), y).backward()
        optimizer.step()
    plain = small()
    plain.load_state_dict(tuned.merged())
    assert torch.allclose(plain(x), tuned(x), atol=1e-6)
    assert not torch.allclose(plain(x), model(x), atol=1e-3)
    assert all(torch.equal(model.state_dict()[name], w) for name, w in before.items())


def test_full_changes_learn_as_the_weights_themselves_would():
    model, (x, y) = small(), samples()
    tuned = full(model)
    for net in (model, tuned):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.nll_loss(net(x), y).backward()
            optimizer.step()
    assert torch.allclose(tuned(x), model(x), atol=1e-6)


def test_lora_is_the_formula_of_its_paper():
    """h = W0 x + alpha / r * B A x, written with numbers that a hand can check."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tuned = lora(model, 1, alpha=3.0, seed=0)
    change = tuned.changes["0/weight"]
    with torch.no_grad():
        change.b.copy_(torch.tensor([[1.0], [2.0]]))
        change.a.copy_(torch.tensor([[5.0, -1.0]]) - change.drawn)  # then A = [5, -1]
    x = torch.tensor([[1.0, 1.0]])
    # W x = [3, 7]; A x = 4; B A x = [4, 8]; times alpha / rank = 3
    assert torch.allclose(tuned(x), torch.tensor([[3.0 + 12, 7 + 24]]))


def test_a_frozen_a_is_neither_learned_nor_sent():
    model = small()
    learned, frozen = lora(model, 2, seed=0), lora(model, 2, freeze_a=True, seed=0)
    sizes = [sum(t.numel() for t in tuned.state_dict().values()) for tuned in (learned, frozen)]
    assert sizes == [2 * (8 + 6) + 2 * (3 + 8), 2 * 8 + 2 * 3]
    a = frozen.changes["0/weight"].drawn
    assert torch.equal(a, learned.changes["0/weight"].drawn), "both draw A from the seed"
    assert not torch.equal(a, lora(model, 2, seed=1).changes["0/weight"].drawn)
    assert [name for name, _ in frozen.named_parameters()] == [
        "changes.0/weight.b",
        "changes.2/weight.b",
    ]


def test_frozen_weights_cost_no_byte_in_a_round():
    model, (x, y) = small(), samples()
    tuned = lora(model, 1, seed=0)
    channel = Channel()
    local = Local(batch_size=4, lr=0.1, steps=2)
    clients = {"ann": (x[:6], y[:6]), "ben": (x[6:], y[6:])}
    *_, last = fedavg(tuned, clients, channel, rounds=1, cohort=2, local=local)
    values = 4 * ((8 + 6) + (3 + 8))
    assert 2 * values < last["nbytes_up"] < 2 * (values + 140)  # headers hold the long names
    assert all(t.nbytes_dense == values for t in channel.transfers)
    assert any(tensor.any() for tensor in tuned.state_dict().values())


def test_several_clients_at_once_learn_as_one_after_the_other():
    """vmap and the loop, for changes that are functions of two parameters."""
    x, y = samples()
    tuned = lora(small(), 2, seed=0)
    starts = [dict(tuned.state_dict())] * 2
    data = [(x[:6], y[:6]), (x[6:], y[6:])]
    local = Local(batch_size=3, lr=0.1, steps=3)
    many = local_updates(tuned, starts, data, local, seeds=[1, 2], chunk=2)
    loop = local_updates(tuned, starts, data, local, seeds=[1, 2], chunk=1)
    for one, other in zip(many, loop, strict=True):
        for name, tensor in one.delta.items():
            assert torch.allclose(tensor, other.delta[name], atol=1e-6), name


def test_tied_weights_stay_tied():
    with seeded(0):
        table, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    head.weight = table.weight
    model, tokens = nn.Sequential(table, head), torch.tensor([[0, 3]])
    tuned = full(model)
    assert list(tuned.state_dict()) == ["changes.0/weight.delta"]
    with torch.no_grad():
        tuned.changes["0/weight"].delta.normal_(generator=torch.Generator().manual_seed(0))
    merged = tuned.merged()
    assert torch.equal(merged["0.weight"], merged["1.weight"])
    assert torch.allclose(tuned(tokens), merged["0.weight"][tokens] @ merged["0.weight"].t())


def test_a_model_that_would_not_learn_is_refused():
    with pytest.raises(ValueError, match="no weight is to be changed"):
        lora(small(), 2, where=lambda name: name == "9.weight", seed=0)
