"""Steps written out: the bits of the lean function for each stack, and nothing else is a stack."""

import pytest
import torch
from torch import nn

from fltoolkit.federated import Local, local_update_lean
from fltoolkit.federated._dense import local_update_dense, stack_of
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.models import mcmahan_2nn, seeded, splitnn_mlp

HOW = Local(batch_size=4, lr=0.1, epochs=2)
CROSS = Local(batch_size=4, lr=0.1, epochs=2, loss_fn=nn.functional.cross_entropy)
SQUARE = Local(batch_size=None, lr=0.1, steps=3, loss_fn=nn.functional.mse_loss)


def layers(*parts):
    return nn.Sequential(*parts)


def mlp(dtype=torch.float32):
    with seeded(0):
        parts = (nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 9), nn.ReLU(), nn.Linear(9, 3))
        return layers(*parts, nn.LogSoftmax(dim=1)).to(dtype)


def samples(n=18, shape=(6,), dtype=torch.float32):
    x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    return x, x.flatten(1)[:, :3].argmax(1)


@pytest.mark.parametrize(
    ("module", "shape", "local"),
    [
        (mlp(), (6,), HOW),
        (mlp(torch.float64), (6,), HOW),
        (mcmahan_2nn(seed=0), (784,), HOW),
        (splitnn_mlp(seed=0), (784,), HOW),
        (layers(nn.Linear(6, 3)), (6,), CROSS),
        (layers(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (2, 1, 3), CROSS),
        (layers(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1)), (6,), SQUARE),
    ],
    ids=["three layers", "float64", "2NN", "seed model", "one layer", "flatten", "regression"],
)
def test_bits(module, shape, local):
    x, y = samples(shape=shape, dtype=next(module.parameters()).dtype)
    y = x[:, :1] if local is SQUARE else y
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    start = {name: tensor + 0.01 for name, tensor in reversed(before.items())}  # as it may come
    stack = stack_of(module, x)
    assert stack
    dense = local_update_dense(stack, module, start, x, y, local, seed=3)
    lean = local_update_lean(module, start, x, y, local, seed=3)
    assert dense.loss == lean.loss
    assert dense.num_steps == lean.num_steps
    assert [*dense.delta] == [*lean.delta]
    assert all(torch.equal(dense.delta[name], lean.delta[name]) for name in lean.delta)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(torch.equal(start[name], before[name] + 0.01) for name in before)
    (chosen,) = local_updates(module, [start], [(x, y)], local, seeds=[3])
    assert all(torch.equal(chosen.delta[name], lean.delta[name]) for name in lean.delta)


class Own(nn.Linear):
    pass


def tied():
    module = layers(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    module[2].weight = module[0].weight
    return module


def twice():
    relu = nn.ReLU()
    return layers(nn.Linear(6, 3), relu, nn.Linear(3, 3), relu, nn.LogSoftmax(dim=1))


def frozen():
    module = mlp()
    module[0].weight.requires_grad_(False)
    return module


def hooked_weight():
    module = mlp()
    module[0].weight.register_hook(lambda gradient: 2 * gradient)
    return module


def hooked():
    module = mlp()
    module[2].register_forward_hook(lambda *_: None)
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(6, 3),
        layers(),
        layers(nn.ReLU(), nn.Linear(6, 3)),
        layers(nn.Linear(6, 3), nn.ReLU()),
        layers(nn.Linear(6, 3), nn.Linear(3, 3)),
        layers(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 3)),
        layers(nn.Linear(6, 3), nn.ReLU(), nn.Dropout(), nn.Linear(3, 3)),
        layers(nn.Linear(6, 3, bias=False)),
        layers(nn.Linear(6, 3, bias=False), nn.ReLU(), Own(3, 3)),
        layers(Own(6, 3)),
        layers(nn.LogSoftmax(dim=1)),
        layers(nn.Flatten(2), nn.Linear(6, 3)),
        tied(),
        twice(),
        frozen(),
        hooked(),
        hooked_weight(),
    ],
    ids=str,
)
def test_all_else_is_no_stack(module):
    assert stack_of(module, samples()[0]) is None


def test_samples_of_another_kind_are_for_the_others():
    """They raise the errors, or know what to do."""
    assert stack_of(mlp(), samples()[0])
    assert stack_of(mlp(), samples(dtype=torch.float64)[0]) is None
    assert stack_of(mlp(), samples(shape=(2, 6))[0]) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert stack_of(mlp(), samples()[0]) is None


def test_divergence_is_told():
    x, y = samples()
    (error,) = local_updates(mlp(), [mlp().state_dict()], [(x * 1e30, y)], HOW, seeds=[0])
    assert isinstance(error, FloatingPointError)
