"""Partners at random against the step by hand, and few random values against all of them."""

import pytest
import torch
from core.federated.small import FOUR, INNER, network, plain_ends, weights

from experiments.replications.gossip import Apart, noloco, sparta
from fltoolkit.channel import Channel
from fltoolkit.federated import Local
from fltoolkit_research.federated import diloco


def spread(memory):
    """How far the workers are from their mean."""
    flat = [torch.cat([t.flatten() for t in w.values()]) for w in memory.weights.values()]
    each = torch.stack(flat)
    return float((each - each.mean(0)).norm())


@pytest.mark.later
@pytest.mark.parametrize(
    ("protocol", "all_of"), [(noloco, {"group": 4}), (sparta, {"fraction": 1})]
)
def test_a_group_of_all_workers_or_all_values_each_round_is_diloco(protocol, all_of):
    """With momentum outside, or a plain mean."""
    model, other, memory = network(), network(), Apart()
    outer = torch.optim.SGD(other.parameters(), lr=0.7, momentum=0.5)
    how = {"rounds": 4, "local": INNER}
    list(protocol(model, FOUR, Channel(), **how, **all_of, memory=memory))
    list(diloco(other, FOUR, Channel(), **how, outer=outer if protocol is noloco else None))
    assert torch.allclose(weights(model), weights(other), atol=1e-5)
    assert spread(memory) < 1e-5


@pytest.mark.later
def test_pairs_against_the_step_written_plainly():
    """phi, m: two workers that exchanged move by the momentum of how far phi is from their mean."""
    model, plain, channel, memory, states = network(), network(), Channel(), Apart(), {}
    list(noloco(model, FOUR, channel, rounds=4, local=INNER, seed=2, memory=memory))
    start = {name: p.detach().clone() for name, p in plain.named_parameters()}
    phi = {w: dict(start) for w in FOUR}
    m = {w: {name: torch.zeros_like(t) for name, t in start.items()} for w in FOUR}
    for round_ in range(4):
        theta = plain_ends(plain, phi, round_, states)
        sent = (t for t in channel.transfers if t.step == round_ + 1)
        for ann, ben in map(sorted, {frozenset((t.sender, t.receiver)) for t in sent}):
            for worker in (ann, ben):
                for name in start:
                    pull = (theta[ann][name] + theta[ben][name]) / 2 - phi[worker][name]
                    m[worker][name] = 0.5 * m[worker][name] + 0.7 * pull
                    phi[worker][name] = phi[worker][name] + m[worker][name]
    for worker in FOUR:
        for name in start:
            assert torch.allclose(memory.weights[worker][name], phi[worker][name], atol=1e-5)
    assert torch.equal(model[0].weight, memory.weights["w0"]["0.weight"])


def test_the_drawn_values_are_equal_afterwards_and_no_others():
    memory, size = Apart(), weights(network()).numel()
    drawn, sgd = [], Local(4, lr=0.1, steps=1)
    channel = Channel()
    for _ in sparta(network(), FOUR, channel, rounds=3, local=sgd, fraction=0.2, memory=memory):
        flat = [torch.cat([t.flatten() for t in w.values()]) for w in memory.weights.values()]
        drawn.append((torch.stack(flat) == flat[0]).all(0))
    assert [int(each.sum()) for each in drawn] == [round(0.2 * size)] * 3
    assert not torch.equal(drawn[0], drawn[1])
    assert {t.nbytes_dense for t in channel.transfers} == {4 * round(0.2 * size)}
