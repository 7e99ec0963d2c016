"""What holds for every coder: exact inverses, and robust. New coders inherit `CoderLaws`."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fltoolkit.codecs.coders import CODED
from fltoolkit.codecs.stage import Indices, Symbols, side
from fltoolkit.wire import WireError

NAME = side("w", CODED)


def symbols(values, num_levels):
    return Symbols.of(torch.as_tensor(np.asarray(values)), num_levels)


def places(values, size):
    return Indices(torch.as_tensor(np.asarray(values, np.int64)), size)


def undo(coder, raw):
    return coder.undo({NAME: torch.from_numpy(np.frombuffer(bytes(raw), np.uint8).copy())})["w"]


def nbytes(coder, part):
    """Of the coded entry; checks that it comes back."""
    coded = coder.apply({"w": part})
    assert list(coded) == [NAME]
    assert (coded[NAME].dtype, coded[NAME].dim()) == (torch.uint8, 1)
    (back,) = coder.undo({NAME: coded[NAME].clone()}).values()
    assert type(back) is type(part)
    assert back[1] == part[1]
    assert back.values.dtype == part.values.dtype
    assert back.values.shape == part.values.shape
    assert torch.equal(back.values, part.values)
    return coded[NAME].numel()


def entropy_nbytes(values):
    """The empirical entropy of symbols taken one by one."""
    counts = np.bincount(np.asarray(values).reshape(-1))
    counts = counts[counts > 0]
    return float(counts @ np.log2(counts.sum() / counts)) / 8


def choices_nbytes(size, count):
    """log2 of the number of ways to choose ``count`` of ``size``, in bytes."""
    lgamma = math.lgamma
    nats = lgamma(size + 1) - lgamma(count + 1) - lgamma(size - count + 1)
    return nats / math.log(2) / 8


def gaussian(count, bits, seed=0):
    """N(0, 1), uniform quantization over 8.5 standard deviations."""
    x = np.random.default_rng(seed).normal(size=count)
    return np.clip(np.round((x / 8.5 + 0.5) * (2**bits - 1)), 0, 2**bits - 1).astype(np.uint8)


def dense_update(rng, rows=256, columns=784, bits=8):
    """Delta times input, as in a dense layer: dead rows, dead columns, a scale for each."""
    left = rng.normal(size=(rows, 2)) * (rng.random((rows, 1)) > 0.2)
    right = np.abs(rng.normal(size=(2, columns))) * np.exp(rng.normal(size=(1, columns)))
    update = left @ (right * (rng.random((1, columns)) > 0.2))
    update = update + 0.05 * np.abs(update) * rng.normal(size=update.shape)
    low, step = update.min(), np.ptp(update) / (2**bits - 1)
    q = np.floor((update - low) / step + rng.random(update.shape)).clip(0, 2**bits - 1)
    return update, q.astype(np.uint8)


def parts_to_damage():
    rng = np.random.default_rng(6)
    yield "matrix", symbols(dense_update(rng, 20, 30)[1], 256)
    few = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 70))
    yield "few levels", symbols(np.clip(np.round(few) + 1, 0, 2), 3)
    yield "16 bits", symbols(rng.integers(0, 3000, (8, 9)), 65536)
    yield "constant", symbols(np.zeros((70, 90)), 4)
    yield "ternary", symbols(rng.integers(0, 3, 300), 3)
    yield "rare places", places(np.flatnonzero(rng.random(20_000) < 0.004), 20_000)
    yield "places", places(np.flatnonzero(rng.random(900) < 0.2), 900)
    yield "clustered places", places(np.flatnonzero(np.tile(rng.random(60) < 0.1, 30)), 1800)


def check_damaged(coder, raw):
    """A WireError, or something well-formed; soon, and never anything else."""
    start = time.process_time()
    try:
        part = undo(coder, raw)
    except WireError:
        return
    values = part.values
    if isinstance(part, Symbols):
        assert not values.numel() or int(values.max()) < part.num_levels
    elif len(values):
        assert int(values[0]) >= 0
        assert int(values[-1]) < part.size
        assert bool((values.diff() > 0).all())
    assert time.process_time() - start < 5


class CoderLaws:
    """Inherited with ``@pytest.mark.parametrize("coder", [...], ids=repr)``."""

    @settings(max_examples=60)
    @given(data=st.data())
    def test_symbols(self, coder, data):
        num_levels = data.draw(st.one_of(st.integers(1, 300), st.integers(1, 65536)))
        shape = data.draw(st.lists(st.integers(0, 9), max_size=4))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        power = data.draw(st.sampled_from([1, 4, 30]))  # skewed towards zero
        nbytes(coder, symbols((rng.random(shape) ** power * num_levels).astype(int), num_levels))

    @settings(max_examples=60)
    @given(data=st.data())
    def test_indices(self, coder, data):
        size = data.draw(st.one_of(st.integers(0, 50), st.integers(0, 20_000)))
        share = data.draw(st.sampled_from([0, 0.001, 0.03, 0.2, 0.7, 1]))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        nbytes(coder, places(np.flatnonzero(rng.random(size) < share), size))

    @pytest.mark.parametrize("num_levels", [1, 2, 3, 4, 17, 255, 256, 257, 1000, 4096, 65536])
    def test_larger_shapes(self, coder, num_levels):
        rng = np.random.default_rng(num_levels)
        for shape in [(4001,), (64, 65), (30, 10, 3, 3), (1, 63), (4000, 1), (0, 7), ()]:
            nbytes(coder, symbols(rng.integers(0, num_levels, shape), num_levels))
            nbytes(coder, symbols(np.full(shape, num_levels - 1), num_levels))

    def test_strided_symbols(self, coder):
        nbytes(coder, Symbols(torch.arange(100).byte().view(10, 10).t()[::2], 100))

    def test_few_places_far_apart(self, coder):
        nbytes(coder, places([], 1 << 40))
        nbytes(coder, places([0], 1))
        nbytes(coder, places([3, 2**33, 2**40 - 1], 1 << 40))

    def test_other_entries_keep_name_place_and_values(self, coder):
        x = torch.randn(3)
        parts = {"a": x, "b": symbols([1, 0], 2), side("b", "r"): x, side("b", "s"): symbols([], 4)}
        coded = coder.apply(parts)
        assert list(coded) == ["a", side("b", CODED), side("b", "r"), side(side("b", "s"), CODED)]
        assert coded["a"] is x
        assert list(coder.undo(coded)) == list(parts)

    @pytest.mark.parametrize(
        ("part", "match"),
        [
            (symbols([0, 3], 3), "found 3"),
            (Symbols(torch.tensor([-1, 0]), 3), "0 to 2"),
            (symbols([0], 70_000), "num_levels=70000"),
            (places([5], 5), "size=5"),
            (places([3, 3], 5), "increasing"),
        ],
    )
    def test_wrong_input_is_named(self, coder, part, match):
        with pytest.raises(ValueError, match=match):
            coder.apply({"w": part})

    def test_long_constant_tensors_are_vouched_for(self, coder):
        assert nbytes(coder, symbols(np.zeros(3_000_000), 1)) < 3_000_000 / 2048

    @pytest.mark.parametrize(
        "part", [pytest.param(part, id=name) for name, part in parts_to_damage()]
    )
    def test_cuts_and_flips(self, coder, part):
        raw = coder.apply({"w": part})[NAME].numpy().tobytes()
        for length in range(0, len(raw), max(1, len(raw) // 400)):
            check_damaged(coder, raw[:length])
        rng = np.random.default_rng(7)
        for bit in [*range(min(96, 8 * len(raw))), *rng.integers(0, 8 * len(raw), 200).tolist()]:
            bad = bytearray(raw)
            bad[bit // 8] ^= 1 << bit % 8
            check_damaged(coder, bad)

    @settings(max_examples=300)
    @given(method=st.integers(0, 13), rest=st.binary(max_size=60))
    def test_any_bytes(self, coder, method, rest):
        check_damaged(coder, bytes([method]) + rest)

    @pytest.mark.parametrize(
        "entry", [torch.zeros(3), torch.zeros(2, 2).byte(), torch.zeros(0).byte()]
    )
    def test_entries_of_another_kind(self, coder, entry):
        with pytest.raises(WireError, match="'w"):
            coder.undo({NAME: entry})

    def test_coded_and_as_it_is(self, coder):
        coded = coder.apply({"w": symbols([1], 2)})
        with pytest.raises(WireError, match="twice"):
            coder.undo({**coded, "w": torch.zeros(1)})
