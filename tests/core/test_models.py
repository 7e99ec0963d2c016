import torch
from torch import nn

from fltoolkit.models import splitnn_mlp


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
