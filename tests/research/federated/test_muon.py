"""Muon: matrices with equal singular values, AdamW for the rest, rates that a schedule scales."""

import pytest
import torch
from torch import nn

from fltoolkit.federated import Local, local_update
from fltoolkit.models import seeded
from fltoolkit.testing import normal
from fltoolkit_research.federated import Muon, muon_for, orthogonalized
from fltoolkit_research.models import gpt


@pytest.mark.parametrize("shape", [(20, 20), (64, 16), (16, 64), (1, 5)])
def test_singular_values_are_near_one_and_directions_stay(shape):
    matrix = normal(*shape)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalized(matrix)
    inside = u.t() @ found @ v.t()
    clear = s > 0.05 * s[0]
    values = inside.diagonal()[clear]
    assert values.min() > 0.5
    assert values.max() < 1.3
    assert (inside - inside.diagonal().diag()).abs().max() < 1e-3
    assert torch.equal(orthogonalized(torch.zeros(shape)), torch.zeros(shape))


def test_a_step_by_hand():
    """A 4 x 1 matrix has one direction: the step is lr * sqrt(4) long, times a value near 1."""
    w, b = nn.Parameter(torch.zeros(4, 1)), nn.Parameter(torch.zeros(2))
    optimizer = Muon([w, b], (0,), lr=0.1, momentum=0.5, adamw_lr=0.01)
    w.grad, b.grad = torch.tensor([[3.0], [0.0], [0.0], [4.0]]), torch.tensor([5.0, -0.2])
    optimizer.step()
    assert w[1] == 0
    assert w.norm().item() == pytest.approx(0.2, rel=0.35)
    assert (w[0] / w[3]).item() == pytest.approx(0.75, abs=1e-4)
    assert b.tolist() == pytest.approx([-0.01, 0.01], rel=1e-4)
    momentum = optimizer.state[w]["momentum"].clone()
    optimizer.step()
    assert torch.allclose(optimizer.state[w]["momentum"], 1.5 * momentum)


def test_the_rest_is_adamw():
    with seeded(0):
        one, other = nn.Linear(4, 3), nn.Linear(4, 3)
    other.load_state_dict(one.state_dict())
    mine = Muon(one.parameters(), (), adamw_lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    theirs = torch.optim.AdamW(other.parameters(), lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    for seed in range(5):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            a.grad = b.grad = normal(*a.shape, seed=seed)
        mine.step()
        theirs.step()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_hidden_matrices_of_a_gpt():
    model = gpt(11, num_layers=2, width=16, seed=0)
    params = list(model.parameters())
    hidden = muon_for(model).keywords["hidden"]
    assert len(hidden) == 8
    outside = {id(p) for item in (model[0], model[-1]) for p in item.parameters()}
    assert not outside & {id(params[k]) for k in hidden}
    with pytest.raises(ValueError, match="no matrix between"):
        muon_for(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))


def test_a_schedule_scales_both_rates_and_states_survive():
    model = gpt(11, num_layers=1, width=16, context=8, seed=0)
    x = torch.arange(64).reshape(8, 8) % 11
    how = {"batch_size": 4, "steps": 2, "optimizer": muon_for(model), "keep_state": True}
    still = Local(**how, schedule=lambda step: 0.0)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    update = local_update(model, start, x, x, still, seed=0)
    assert not any(d.any() for d in update.delta.values())
    moving = Local(**how)
    one = local_update(model, start, x, x, moving, seed=0)
    assert all(d.any() for d in one.delta.values())
    two = local_update(model, start, x, x, moving, seed=0, state=one.state)
    assert not any(map(torch.equal, one.delta.values(), two.delta.values()))


def test_bad_settings():
    params = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2))]
    with pytest.raises(ValueError, match=r"the parameters at \[1\] are no matrices"):
        Muon(params, (1,))
