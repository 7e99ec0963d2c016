"""What holds for each stage by itself; `Conformance` holds what is true of whole codecs."""

import copy

import pytest
import torch
from every_codec import CODECS

from fltoolkit.codecs import (
    DGC,
    DRIVE,
    EDEN,
    QSGD,
    Float8,
    PowerSGD,
    Quantize,
    RandomK,
    RandTopK,
    Rotate,
    Ternary,
)
from fltoolkit.codecs.base import walk
from fltoolkit.codecs.stage import Answered, Stage, Symbols, side
from fltoolkit.testing import normal

MORE = [
    Quantize(16, stochastic=True, seed=3),
    Quantize(8, stochastic=True, per=16),
    QSGD(300),
    Float8(2, 5, bias=1),
    RandomK(0.1, seed=3, unbiased=False),
    RandTopK(0.1, training=False),
    DGC(0.1, warmup=(0.5,)),
    DGC(0.1, momentum=0, scope="model"),
    DRIVE(unbiased=False),
]
PARTS = [*(part for codec in CODECS for part in walk(codec)), *MORE]
STAGES = {repr(part): part for part in PARTS if isinstance(part, Stage)}
FLOATS = {
    "a": normal(2, 20),
    "b": normal(40, 9).t(),
    "one": torch.tensor(-9.0),
    "zero": torch.zeros(30, 2),
}
OTHERS = {
    "steps": torch.tensor(3),
    "*": torch.tensor([7]),
    "none": torch.zeros(0, 3),
    "**": torch.tensor(True),
    side("b", "dtype"): torch.tensor(1, dtype=torch.uint8),
    "double": torch.ones(2, dtype=torch.float64),
}


def same(one, other):
    """Whether parts have the same names, in order, and the same values."""
    return list(one) == list(other) and all(
        type(a) is type(b)
        and torch.equal(*(p if isinstance(p, torch.Tensor) else p.values for p in (a, b)))
        for a, b in zip(one.values(), other.values(), strict=True)
    )


@pytest.mark.parametrize("stage", STAGES.values(), ids=repr)
def test_every_stage(stage):
    """What it gets stays as it was; a saved one goes on, and one that starts again forgets."""
    tree, sender, receiver = {**OTHERS, **FLOATS}, copy.deepcopy(stage), copy.deepcopy(stage)
    before = {name: tensor.clone() for name, tensor in tree.items()}
    parts = sender.apply(tree)
    kept = copy.deepcopy(parts)
    received, masks = receiver.undo(parts), receiver.masks(parts)
    assert same(tree, before)
    assert received.keys() == tree.keys()
    for name, tensor in tree.items():
        assert (received[name].shape, received[name].dtype) == (tensor.shape, tensor.dtype)
    if stage != STAGES["Narrow()"]:  # which works on whole numbers
        assert all(parts[name] is received[name] is tree[name] for name in OTHERS)
    assert receiver.undo(receiver.apply({})) == {}
    assert masks.keys() == (FLOATS.keys() if isinstance(stage, Answered) else set())
    for name, mask in masks.items():
        assert (mask.shape, mask.dtype) == (tree[name].shape, torch.bool)
        assert not received[name][~mask].any()
    for name in FLOATS:
        if received[name] is not tree[name]:
            received[name].fill_(1)  # memory of its own
    assert same(parts, kept)
    for name, part in parts.items():
        if isinstance(part, Symbols):
            assert stage.leaves_out or part.values.shape == tree[name].shape
            assert part.values.dtype == (torch.uint8 if part.num_levels <= 256 else torch.int32)
            assert int(part.values.max()) < part.num_levels
    other = copy.deepcopy(stage)
    other.load_state_dict(copy.deepcopy(sender.state_dict()))
    assert same(other.apply(tree), sender.apply(tree))
    sender.start_link(0)
    assert same(sender.apply(tree), kept)


DRAWING = [
    Quantize(3, stochastic=True),
    Quantize(12, stochastic=True, per=8),
    QSGD(2, bucket=8),
    QSGD(500),
    Ternary(),
    RandomK(0.1),
    RandTopK(0.1, alpha=0.5),
    Rotate(),
    DRIVE(),
    EDEN(2),
]


@pytest.mark.parametrize("stage", [*DRAWING, PowerSGD(2)], ids=repr)
def test_each_link_message_entry_and_seed_draws_for_itself(stage):
    def drawn(salt, seed=0):
        """What two messages bring."""
        fresh, tree = copy.deepcopy(stage), {"w": normal(40, 50)}
        fresh.seed = seed
        fresh.start_link(salt)
        return [fresh.undo(fresh.apply(tree))["w"] for _ in range(2)]

    first, second = drawn(1)
    assert all(map(torch.equal, (first, second), drawn(1)))
    for other in (drawn(2)[0], drawn(1, seed=1)[0], second):
        assert not torch.equal(first, other)
    if not isinstance(stage, RandomK | PowerSGD):
        tree = {"a": normal(40, 50), "b": normal(40, 50)}
        both = stage.undo(copy.deepcopy(stage).apply(tree))
        assert not torch.equal(both["a"], both["b"])
