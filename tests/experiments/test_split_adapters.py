"""Fine-tuning in two parts: what is learned does not depend on the cut, what is sent does."""

import torch

from experiments.language.finetune import score
from experiments.language.split_adapters import TwoParts, adapted, averaged, train
from fltoolkit import Channel
from fltoolkit_research.models import gpt

IDS = torch.randint(65, (2, 12, 9), generator=torch.Generator().manual_seed(0))
CLIENTS = {f"client_{k}": (ids[:, :-1], ids[:, 1:]) for k, ids in enumerate(IDS)}


def trained(*cuts: int, cut_rank: int = 4):
    """The averaged model, what was sent, and the kinds of messages in their order."""
    model, channel = gpt(65, context=8, width=16, seed=0), Channel()
    tuned = adapted(model, 4)
    size = {"rounds": 2, "steps": 3, "batch_size": 4, "seed": 0}
    for record in train(tuned, model, CLIENTS, channel, TwoParts(cuts, 4, cut_rank), 0.05, **size):
        last = record
    return tuned, last, [(t.kind, t.nbytes_dense) for t in channel.transfers]


def test_the_cut_changes_bytes_and_not_what_is_learned():
    (early, one, first), (late, two, _) = trained(2, 2), trained(3, 2)
    fresh = adapted(gpt(65, context=8, width=16, seed=0), 4).state_dict()
    for name, weights in early.state_dict().items():
        assert not torch.equal(weights, fresh[name])
        torch.testing.assert_close(weights, late.state_dict()[name])
    data = CLIENTS["client_0"]
    assert score(early, data) < score(adapted(gpt(65, context=8, width=16, seed=0), 4), data)
    assert one["nbytes"] < two["nbytes"]
    crossed = [("activations", 4 * 8 * 16 * 4), ("gradients", 4 * 8 * 16 * 4)]
    assert [each for each in first if each[0] in ("activations", "gradients")] == crossed * 12
    assert [kind for kind, _ in first].count("update") == 4
    assert [kind for kind, _ in first].count("model") == 2  # not before the first round


def test_a_lower_rank_in_the_cut_layer_sends_less():
    (_, whole, _), (tuned, narrow, _) = trained(2, 2), trained(2, 2, cut_rank=1)
    assert narrow["nbytes"] < whole["nbytes"]
    state = tuned.state_dict()
    assert state["changes.1/qkv/weight.b"][:, :1].any()
    assert not state["changes.1/qkv/weight.b"][:, 1:].any()
    assert state["changes.2/qkv/weight.b"][:, 1:].any()


def test_a_direction_is_the_mean_of_those_who_have_it():
    mean = averaged([{"b": torch.tensor([[2.0]])}, {"b": torch.tensor([[4.0, 6.0]])}], [1, 3])
    assert mean["b"].tolist() == [[3.5, 6.0]]
