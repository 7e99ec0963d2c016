"""Top-k: the largest values exactly, how they travel, and messages that nobody sent."""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from trees import same, tree_of

from experiments.replications.dgc import DGC
from fltoolkit.codecs import Pipeline, PlainTopK, TopK, places
from fltoolkit.codecs.places import largest
from fltoolkit.codecs.stage import Indices, Symbols, side
from fltoolkit.testing import normal
from fltoolkit.trees import masked_mean
from fltoolkit.wire import WireError, write_layout
from fltoolkit_research.codecs import STC, RandomK, RandTopK


def damaged(parts, **changes):
    return {key: part for key, part in {**parts, **changes}.items() if part is not None}


# --------------------------------------------------------------------------- the largest, exactly
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-45, -1e-45, 1e-39, 3e38, -3e38]
SPECIAL = torch.tensor(SPECIAL).tolist()  # exact in float32, as older versions of Hypothesis want
VECTORS = hnp.arrays(
    np.float32,
    st.integers(1, 200),
    elements=st.one_of(
        st.sampled_from(SPECIAL), st.floats(width=32, allow_nan=False, allow_infinity=False)
    ),
)


def largest_plain(tensors, k):
    """The places that `PlainTopK` keeps."""
    stage = PlainTopK(k / sum(tensor.numel() for tensor in tensors))
    return stage.apply({str(n): x for n, x in enumerate(tensors)})[side("*", "@")].values.numpy()


@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("fraction", [0.01, 0.5, 1.0])
def test_plain_top_k_sends_the_same_bytes(fraction, scope):
    tree = {"w": (4 * normal(40, 50)).round(), "b": normal(50)}  # with ties
    plain, fast = Pipeline(PlainTopK(fraction, scope)), Pipeline(TopK(fraction, scope))
    assert (message := plain.encode(tree)) == fast.encode(tree)
    assert same(plain.decode(message), fast.decode(message))


@pytest.mark.slow
@settings(max_examples=200)
@given(VECTORS, st.data())
def test_largest_equals_the_plain_version(vector, data):
    k = data.draw(st.sampled_from([1, len(vector)]) | st.integers(1, len(vector)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(vector)), max_size=3)))
    tensors = [torch.from_numpy(piece) for piece in np.split(vector, cuts) if piece.size]
    expected = largest_plain(tensors, k)
    assert len(expected) == k
    # small blocks and a small sample, so that a short vector meets what a long one meets
    with mock.patch.multiple(places, SAMPLE=data.draw(st.integers(1, 40)), RUN=2, BLOCK=7):
        assert np.array_equal(largest(tensors, k)[0], expected)
    found, values = largest(tensors, k)
    assert np.array_equal(found, expected)
    assert values.tobytes() == vector[expected].tobytes()  # with their signs, those of zeros too


def long_vectors():
    n = 200_000
    x = torch.randn(n, generator=torch.Generator().manual_seed(1))
    steps, runs = np.arange(places.SAMPLE // places.RUN) * 0.6180339887498949, n // places.RUN
    starts = places.RUN * ((steps - np.floor(steps)) * runs).astype(np.int64)
    seen = torch.from_numpy((starts[:, None] + np.arange(places.RUN)).reshape(-1))
    yield "normal", x
    yield "ties", (x * 2).round()
    yield "zeros", torch.zeros(n)
    yield "ones", -torch.ones(n)
    yield "sparse", x * (x > 2.7)
    yield "few nonzeros", x * (x > 4)
    yield "clustered", torch.where(torch.arange(n) < 3000, x, 0)
    yield "large where the sample looks", x.index_fill(0, seen, 1e6)
    yield "small where the sample looks", x.index_fill(0, seen, 0)
    yield "denormal", x * 1e-42
    yield "strided", torch.stack([x, x])[:, ::2].t()


@pytest.mark.later
@pytest.mark.parametrize(("name", "x"), list(long_vectors()))
def test_largest_of_long_vectors(name, x):
    for k in (1, 200, 2000, 20_000, x.numel() - 1, x.numel()):
        found, values = largest([x], k)
        assert np.array_equal(found, largest_plain([x], k)), k
        assert np.array_equal(values, x.reshape(-1).numpy()[found]), k


# --------------------------------------------------------------------------- top-k, by hand
def test_topk_by_hand():
    tree = {"a": torch.tensor([[1.0, -5.0], [0.5, 3.0]]), "b": torch.tensor([-4.0, 0.0])}
    parts = TopK(0.5).apply(tree)
    assert torch.equal(parts["*"], torch.tensor([-5.0, 3.0, -4.0]))
    assert parts[side("*", "@")].values.tolist() == [1, 3, 4]
    assert parts[side("*", "@")].size == 6
    layout = bytes(parts[side("*", ":")].tolist())
    assert layout == b"\x01a\x20\x02\x02\x01b\x10\x02"  # name, dimensions and dtype, lengths
    assert same(
        TopK(0.5).undo(parts),
        {"a": torch.tensor([[0.0, -5.0], [0.0, 3.0]]), "b": torch.tensor([-4.0, 0.0])},
    )
    ties = {"w": torch.tensor([1.0, -1.0, 2.0, 1.0, -1.0])}
    assert TopK(0.6).apply(ties)[side("*", "@")].values.tolist() == [0, 1, 2]
    assert TopK(0.01).apply(ties)["*"].tolist() == [2], "at least one, and not all"


def test_what_is_sparse_already_is_refused():
    twice = TopK(0.5, "tensor")
    with pytest.raises(ValueError, match="'w0' is sparse already"):
        twice.apply(twice.apply(tree_of((3, 4))))


# --------------------------------------------------------------------------- masked mean
def test_masked_mean_complains():
    tree, mask = {"w": torch.ones(2)}, {"w": torch.ones(2)}
    with pytest.raises(ValueError, match=r"'w' is torch.float32"):
        masked_mean([tree], [mask], [1])
    with pytest.raises(ValueError, match="1 trees and 2 masks"):
        masked_mean([tree], [{}, {}], [1])
    with pytest.raises(ValueError, match="a mask for 'x'"):
        masked_mean([tree], [{"x": torch.ones(2).bool()}], [1])


# --------------------------------------------------------------------------- damaged messages
def layout_of(*shapes):
    entries = tuple((chr(97 + i), torch.float32, shape) for i, shape in enumerate(shapes))
    return torch.tensor(list(write_layout(entries)), dtype=torch.uint8)


PLACES, LAYOUT = side("*", "@"), side("*", ":")


@pytest.mark.parametrize(
    "changes",
    [
        {PLACES: None},
        {LAYOUT: None},
        {"*": None, "x": torch.ones(11)},
        {"*": torch.ones(10)},
        {"*": torch.ones(11).double()},
        {"*": Symbols(torch.zeros(11).byte(), 2)},
        {PLACES: torch.arange(11)},
        {PLACES: Indices(torch.arange(11).int(), 107)},
        {PLACES: Indices(torch.arange(11), 106)},
        {PLACES: Indices(torch.arange(10), 107)},
        {PLACES: Indices(torch.arange(11)[None], 107)},
        {PLACES: Indices(torch.arange(-1, 10), 107)},
        {PLACES: Indices(torch.arange(97, 108), 107)},
        {PLACES: Indices(torch.arange(11).flip(0), 107)},
        {PLACES: Indices(torch.tensor([0, *range(10)]), 107)},
        {LAYOUT: torch.zeros(0).byte()},
        {LAYOUT: torch.zeros(9)},
        {LAYOUT: layout_of((2, 20), (6, 10))},
        {LAYOUT: layout_of((2, 20), (6, 10), (7,))[:-1]},
        {LAYOUT: layout_of((2, 20), (6, 10), (7,), (0, 4))},
        {LAYOUT: torch.tensor([1, 97, 0x11, 107], dtype=torch.uint8)},  # float16
        {LAYOUT: torch.tensor([3, 97, 31, 98, 0x10, 107], dtype=torch.uint8)},  # side information
        {LAYOUT: torch.tensor([1, 255, 0x10, 107], dtype=torch.uint8)},  # no UTF-8
        {LAYOUT: torch.tensor([1, 97, 0x10, 107], dtype=torch.uint8), "a": torch.ones(1).int()},
        {LAYOUT: layout_of((2**20, 2**18)), PLACES: Indices(torch.arange(11), 2**38)},
    ],
)
def test_damage_to_topk(changes):
    parts = TopK(0.1).apply(tree_of((2, 20), (6, 10), (7,)))
    for stage in (TopK(0.1), DGC(0.1, scope="model")):
        stage.undo(parts)
        with pytest.raises(WireError, match=r"entry|offset"):
            stage.undo(damaged(parts, **changes))


def test_damage_of_other_stages():
    tree = tree_of((10, 10))
    for stage, changes in [
        (TopK(0.1, "tensor"), {side("w0", "@"): None}),
        (TopK(0.1, "tensor"), {side("w0", ":"): layout_of((9, 10))}),
        (TopK(0.1, "tensor"), {side("w0", ":"): layout_of((5, 10), (5, 10))}),
        (
            TopK(0.1, "tensor"),
            {side("w0", "@"): Indices(torch.arange(10), 0), side("w0", ":"): None},
        ),
        (TopK(0.1, "tensor"), {side("w0", ":"): layout_of((1,), (10, 10))}),
        (RandTopK(0.1), {side("w0", ":"): layout_of((2, 50), (1,))}),
        (RandTopK(0.1), {"w0": torch.ones(9)}),
        (RandomK(0.1), {side("*", "?"): None}),
        (RandomK(0.1), {side("*", "?"): torch.tensor(1.0)}),
        (RandomK(0.1), {side("*", "?"): torch.tensor([1, 2], dtype=torch.int32)}),
        (RandomK(0.1), {side("*", ":"): layout_of((2**20, 2**18))}),
        (RandomK(0.1), {side("*", ":"): None}),
        (RandomK(0.1), {"*": torch.ones(11)}),
        (STC(0.1), {side("*", "|"): None}),
        (STC(0.1), {side("*", "|"): torch.tensor(1)}),
        (STC(0.1), {"*": torch.ones(10)}),
        (STC(0.1), {"*": Symbols(torch.zeros(10).byte(), 4)}),
        (STC(0.1), {"*": Symbols(torch.zeros(11).byte(), 2)}),
    ]:
        with pytest.raises(WireError, match="entry"):
            stage.undo(damaged(stage.apply(tree), **changes))
    with pytest.raises(WireError, match="fraction"):
        TopK(0.1).undo(TopK(0.2).apply(tree))  # another codec's message
    DGC(0.1, warmup=(0.2,), scope="model").undo(TopK(0.2).apply(tree))
