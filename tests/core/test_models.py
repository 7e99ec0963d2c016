import pytest
import torch
from torch import nn

from fltoolkit import SGD, Channel, Party, train_split
from fltoolkit.models import generate, gpt, resnet50, seeded, splitnn_mlp, vgg16
from fltoolkit_research.data import Text


def num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def on_meta(make, *args):
    with torch.device("meta"):
        return make(*args, seed=0)


def test_the_seed_model_has_the_tutorials_size():
    model = splitnn_mlp(seed=0)
    assert num_parameters(model) == 189_450
    assert num_parameters(model[:4]) == 183_040
    assert num_parameters(model[4:]) == 6_410
    assert model[:4](torch.zeros(2, 784)).shape == (2, 640)


def test_vgg16_has_13_convolutions_and_the_wide_head():
    model = on_meta(vgg16, 10)
    convs = [m for m in model if isinstance(m, nn.Conv2d)]
    linears = [(m.in_features, m.out_features) for m in model if isinstance(m, nn.Linear)]
    assert len(convs) == 13
    assert linears == [(512, 4096), (4096, 4096), (4096, 10)]
    assert not any(isinstance(m, nn.BatchNorm2d | nn.Dropout) for m in model.modules())
    assert num_parameters(model) == 33_638_218
    assert model[:2](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 64, 32, 32)


@pytest.mark.later
def test_resnet50_has_50_layers_and_the_small_stem():
    model = on_meta(resnet50, 100)
    weighted = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    projections = [m for m in model if getattr(m, "shortcut", None)]  # not counted in the "50"
    assert len(weighted) - len(projections) == 50
    # By hand: the ImageNet network has 25,557,032; its 7 x 7 stem and 1000 classes are exchanged.
    expected = 25_557_032 - 3 * 64 * (7 * 7 - 3 * 3) - (2_048 + 1) * (1_000 - 100)
    assert num_parameters(model) == expected == 23_705_252
    assert model[:1](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 64, 32, 32)
    assert model[:-4](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 2048, 4, 4)


def test_same_seed_same_weights_and_no_trace_in_the_global_rng():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, same, other = (splitnn_mlp(seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@pytest.mark.slow
@pytest.mark.parametrize("make", [vgg16, resnet50])
def test_big_models_follow_their_seed_leave_no_trace_and_keep_the_signal(make):
    before = torch.get_rng_state()
    model = make(10, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    again = make(10, seed=1)
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)

    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        h, log_probabilities = model[:-2](x), model(x)
    assert log_probabilities.shape == (4, 10)
    assert torch.allclose(log_probabilities.exp().sum(1), torch.ones(4), atol=1e-5)
    # With torch's own initialization VGG's signal is about 0.01 here and the images look alike.
    assert 0.1 < h.std() < 10
    assert log_probabilities.std(dim=0).mean() > 0.05


def test_seeded_gives_the_generator_back_after_an_error():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(TypeError), seeded(0):
        torch.rand(3, "no device")
    assert torch.equal(torch.get_rng_state(), before)


def test_seeded_keeps_meta_and_draws_the_weights_a_plain_seed_would():
    assert all(p.is_meta for p in on_meta(splitnn_mlp).parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = nn.Linear(784, 128).weight
    assert torch.equal(splitnn_mlp(seed=7)[0].weight, expected)


@pytest.mark.later
def test_a_block_adds_its_shortcut():
    block = resnet50(10, seed=0)[4]  # the second of its stage: the shortcut is the input itself
    nn.init.zeros_(block.residual[-1].weight)  # BatchNorm's scale: nothing left to add
    x = torch.rand(1, 256, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), x)


def test_gpt_has_the_size_that_a_minute_trains():
    assert num_parameters(gpt(65, seed=0)) == 111_425
    assert len(gpt(65, num_layers=3, seed=0)) == 5  # embedding, blocks, head: so many cuts


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


def test_a_split_gpt_is_the_whole_gpt():
    text = Text.of("to be or not to be, that is the question. " * 8, "hamlet")
    x, y = text.windows(8)
    make = lambda: gpt(len(text.alphabet), context=8, width=16, seed=0)  # noqa: E731
    whole, bottom, top = make(), make()[:2], make()[2:]
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    parties = [
        Party("alice", bottom, SGD(bottom.parameters(), lr=0.1)),
        Party("bob", top, SGD(top.parameters(), lr=0.1), loss_fn=nn.NLLLoss()),
    ]
    for record in train_split(parties, [(x, y)] * 3, Channel()):
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(whole(x), y)
        loss.backward()
        optimizer.step()
        assert record["loss"] == loss.item()
    for mine, theirs in zip(
        whole.parameters(), [*bottom.parameters(), *top.parameters()], strict=True
    ):
        assert torch.equal(mine, theirs)


def test_gpt_refuses_a_window_that_is_too_long_and_heads_that_do_not_fit():
    with pytest.raises(ValueError, match="windows of 9 characters: this gpt has context=8"):
        gpt(11, context=8, width=16, seed=0)(torch.zeros(1, 9, dtype=torch.int64))
    with pytest.raises(ValueError, match="heads must divide the width"):
        gpt(11, width=10, seed=0)


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


def test_generate_refuses_nothing_to_start_from_and_a_model_that_has_diverged():
    with pytest.raises(ValueError, match=r"shape \[0\]: give one character"):
        generate(Next(), torch.zeros(0, dtype=torch.int64), 3, context=4)
    with pytest.raises(ValueError, match="length=-1, context=4"):
        generate(Next(), torch.tensor([0]), -1, context=4)
    broken = gpt(5, context=4, width=8, seed=0)
    broken[0].what.weight.data.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="diverged"):
        generate(broken, torch.tensor([0]), 1, context=4)
