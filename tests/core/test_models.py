import torch
from torch import nn

from fltoolkit.models import splitnn_mlp


def num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_the_seed_model_has_the_tutorials_size():
    model = splitnn_mlp(seed=0)
    assert num_parameters(model) == 189_450
    assert num_parameters(model[:4]) == 183_040
    assert num_parameters(model[4:]) == 6_410
    assert model[:4](torch.zeros(2, 784)).shape == (2, 640)


def test_same_seed_same_weights_and_no_trace_in_the_global_rng():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same, other = (splitnn_mlp(seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_seeded_keeps_meta_and_draws_the_weights_a_plain_seed_would():
    with torch.device("meta"):
        assert all(p.is_meta for p in splitnn_mlp(seed=0).parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = nn.Linear(784, 128).weight
    assert torch.equal(splitnn_mlp(seed=7)[0].weight, expected)
