"""Small named tensors that the tests of several codecs are about, and one through a stage."""

import torch


def tree_of(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {f"w{i}": torch.randn(shape, generator=generator) for i, shape in enumerate(shapes)}


def same(a, b):
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)


def flat(tree):
    return torch.cat([tensor.reshape(-1) for tensor in tree.values()])


def there_and_back(stage, tensor):
    return stage.undo(stage.apply({"w": tensor}))["w"]


def squared_error(stage, x):
    return float(((there_and_back(stage, x) - x).double() ** 2).mean())
