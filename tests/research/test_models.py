import pytest
import torch
from torch import nn

from fltoolkit_research import pretrained
from fltoolkit_research.data import Text
from fltoolkit_research.models import generate, gpt


def test_gpt_never_looks_ahead():
    model = gpt(11, context=8, width=16, seed=0)
    x = torch.arange(8)[None] % 11
    other = x.clone()
    other[0, 5:] = 3
    one, two = model(x), model(other)
    assert torch.equal(one[..., :5], two[..., :5])
    assert not torch.equal(one[..., 5:], two[..., 5:])


def test_gpt_gives_log_probabilities_with_classes_second():
    out = gpt(11, context=8, width=16, seed=0)(torch.zeros(3, 6, dtype=torch.int64))
    assert out.shape == (3, 11, 6)
    torch.testing.assert_close(out.exp().sum(dim=1), torch.ones(3, 6))


def test_gpt_refuses_a_window_that_is_too_long():
    with pytest.raises(ValueError, match="windows of 9 characters: this gpt has context=8"):
        gpt(11, context=8, width=16, seed=0)(torch.zeros(1, 9, dtype=torch.int64))


class Next(nn.Module):
    """Says that after character k comes k + 1 with probability 0.9, else any of the others."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.shape[1])
        chances = torch.full((*x.shape, 5), 0.025)
        chances.scatter_(2, ((x + 1) % 5)[..., None], 0.9)
        return chances.log().transpose(1, 2)


def test_generate_is_greedy_without_a_generator_and_sees_the_context_only():
    model = Next()
    assert generate(model, torch.tensor([3]), 6, context=4).tolist() == [3, 4, 0, 1, 2, 3, 4]
    assert model.seen == [1, 2, 3, 4, 4, 4]


@pytest.mark.later
def test_generate_draws_as_likely_as_the_model_says():
    random = torch.Generator().manual_seed(0)
    state = torch.get_rng_state()
    ids = generate(Next(), torch.tensor([0]), 2000, context=1, generator=random)
    assert torch.equal(torch.get_rng_state(), state)
    rises = ((ids[1:] - ids[:-1]) % 5 == 1).float().mean().item()
    assert rises == pytest.approx(0.9, abs=0.03)
    again = generate(
        Next(), torch.tensor([0]), 2000, context=1, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(ids, again)


def test_generate_refuses_a_model_that_has_diverged():
    broken = gpt(5, context=4, width=8, seed=0)
    broken[0].what.weight.data.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="diverged"):
        generate(broken, torch.tensor([0]), 1, context=4)


TEXT = Text.of("the cat sat on the mat and the rat sat on the cat. " * 40, "cats")
SMALL = {"context": 16, "num_layers": 1, "width": 16, "num_heads": 2}


def loss(model):
    x, y = TEXT.windows(16, "test")
    with torch.no_grad():
        return float(nn.functional.nll_loss(model(x), y))


@pytest.mark.later
def test_it_learns_and_is_the_same_each_time():
    state = torch.get_rng_state()
    first, again = (pretrained(TEXT, num_steps=150, **SMALL) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    untrained = gpt(len(TEXT.alphabet), **SMALL, seed=0)
    assert loss(first) < 0.5 * loss(untrained)
