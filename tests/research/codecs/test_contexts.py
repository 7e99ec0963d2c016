"""Context coding: far below the entropy where there is structure, hardly above it elsewhere."""

import hashlib
import math
import time

import numpy as np
import pytest
import torch
from coder_laws import (
    NAME,
    CoderLaws,
    choices_nbytes,
    dense_update,
    entropy_nbytes,
    gaussian,
    nbytes,
    places,
    symbols,
    undo,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from experiments.replications.deflate import Deflate
from experiments.replications.zstandard import Zstd
from fltoolkit.codecs import Quantize
from fltoolkit.codecs.stage import Indices, Symbols
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, varint
from fltoolkit_research.codecs import ContextEntropy, contexts
from fltoolkit_research.codecs import _lanes as lanes
from fltoolkit_research.codecs import _outer_products as prediction
from fltoolkit_research.codecs.contexts import LANED, MODELLED


@pytest.mark.parametrize("coder", [ContextEntropy()], ids=repr)
class TestContextEntropy(CoderLaws):
    """All of them."""


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            symbols(np.arange(400).reshape(20, 20) % 7 == 0, 2),
            "08020214140114efffff7fd3921d7de1be7d1d8e2d219a30b9d2276ab187fb04b5ee515aa0d2a003f6caca",
        ),
        (
            symbols(8 + (np.arange(16) ** 2 % 13 - 6)[:, None] * (np.arange(16) % 11 - 5) // 7, 16),
            "0810021010011063ffff8f64afa7de3bd81b6bb7edf78645222988f9760e22dd5b104df141d1fc6f457f545397160ec47bb6ee",
        ),
    ],
    ids=["places", "low rank"],
)
def test_golden(part, expected):
    """Decoded to the bit, on any machine and with any version of constriction and numpy."""
    data = bytes.fromhex(expected)
    assert torch.equal(undo(ContextEntropy(), data).values, part.values)
    assert nbytes(ContextEntropy(), part) <= len(data)


class TestMemoryless:
    """Within 1 % and 88 bytes of the empirical entropy, headers included."""

    @pytest.mark.parametrize("bits", [8, 4, 2])
    @pytest.mark.parametrize("shape", [(50,), (1000,), (20_000,), (500, 600), (50, 20, 5, 5)])
    def test_gaussian(self, bits, shape):
        q = gaussian(math.prod(shape), bits).reshape(shape)
        bound = entropy_nbytes(q)
        size = nbytes(ContextEntropy(), symbols(q, 2**bits))
        assert size <= 1.01 * bound + 88
        if q.size > 10_000:
            assert size > 0.99 * bound  # or the entropy is not what it should be

    def test_skewed_and_sparse_alphabets(self):
        rng = np.random.default_rng(0)
        for q in (rng.random(30_000) < 0.01, 40 * rng.integers(0, 6, 30_000)):
            assert nbytes(ContextEntropy(), symbols(q, 256)) <= 1.02 * entropy_nbytes(q) + 88

    @pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
    def test_random_places(self, share):
        size = 1_000_000
        part = places(np.flatnonzero(np.random.default_rng(1).random(size) < share), size)
        bound = choices_nbytes(size, len(part.values))
        assert 0.999 * bound < nbytes(ContextEntropy(), part) <= 1.02 * bound + 8


class TestStructure:
    """Far below the entropy of symbols taken one by one."""

    @pytest.mark.parametrize(("bits", "factor"), [(8, 0.75), (4, 0.95)])
    def test_dense_update(self, bits, factor):
        _, q = dense_update(np.random.default_rng(2), bits=bits)
        size = nbytes(ContextEntropy(), symbols(q, 2**bits))
        assert size < factor * entropy_nbytes(q)
        assert size < min(
            nbytes(Deflate(), symbols(q, 2**bits)), nbytes(Zstd(), symbols(q, 2**bits))
        )
        shuffled = np.random.default_rng(3).permutation(q.reshape(-1)).reshape(q.shape)
        assert nbytes(ContextEntropy(), symbols(shuffled, 2**bits)) > 0.99 * entropy_nbytes(q)

    def test_kernels_with_a_scale_each(self):
        rng = np.random.default_rng(4)
        x = rng.normal(size=(64, 32, 5, 5)) * np.exp(1.5 * rng.normal(size=(64, 32, 1, 1)))
        q = (np.round(x / np.abs(x).max() * 127) + 128).astype(np.uint8)
        assert nbytes(ContextEntropy(), symbols(q, 256)) < 0.95 * entropy_nbytes(q)

    @pytest.mark.parametrize("share", [0.1, 0.01])
    def test_clustered_places(self, share):
        update, _ = dense_update(np.random.default_rng(5))
        size = update.size
        top = np.sort(np.argsort(-np.abs(update).reshape(-1))[: int(share * size)])
        known = Indices(torch.from_numpy(top), size, (update.shape,))
        coded = ContextEntropy().apply({"w": known})
        assert torch.equal(ContextEntropy().undo(coded)["w"].values, known.values)
        assert coded[NAME].numel() < 0.6 * choices_nbytes(size, len(top))
        assert coded[NAME].numel() < 0.8 * nbytes(
            ContextEntropy(), places(top, size)
        )  # without shapes

    def test_places_of_several_tensors_with_known_shapes(self):
        """Each tensor is a matrix of its own; tiny ones in between do no harm."""
        rng = np.random.default_rng(8)
        updates = [dense_update(rng, 100, columns)[0] for columns in (300, 7, 441)]
        updates.insert(1, np.ones(10) * 1e9)
        x = np.concatenate([update.reshape(-1) for update in updates])
        part = places(np.sort(np.argsort(-np.abs(x))[: len(x) // 20]), len(x))

        shapes = tuple(update.shape for update in updates)
        coded = ContextEntropy().apply({"w": Indices(part.values, part.size, shapes)})
        assert torch.equal(ContextEntropy().undo(coded)["w"].values, part.values)
        assert coded[NAME].numel() < 0.9 * nbytes(ContextEntropy(), part)


class TestPrediction:
    """What outer products tell of a cell, and that both sides compute the same."""

    def test_few_outer_products(self):
        """Of rank 3: far below the entropy; shuffled, or without shape, nothing is left to see."""
        rng = np.random.default_rng(10)
        x = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 400))
        q = np.clip(np.round(8 * x) + 128, 0, 255).astype(np.uint8)
        size = nbytes(ContextEntropy(), symbols(q, 256))
        assert size < 0.45 * entropy_nbytes(q)
        shuffled = rng.permutation(q.reshape(-1)).reshape(q.shape)
        assert nbytes(ContextEntropy(), symbols(shuffled, 256)) > 0.99 * entropy_nbytes(q)
        assert nbytes(ContextEntropy(), symbols(q.reshape(-1), 256)) > 0.9 * entropy_nbytes(q)

    def test_float32_adds_up_factors_exactly(self):
        """In any order: the largest sum of the largest products stays below 2**24."""
        assert prediction.RANK * prediction.FACTOR**2 < 2**24

    def test_what_is_left_of_a_cell_and_back(self):
        """For all predictions and cells: in reach, nothing if they nearly agree, and invertible."""
        eighths = np.arange(-prediction.FAR, prediction.FAR + 1, dtype=np.float32)[:, None]
        cells = np.arange(-255, 256, dtype=np.int16) + np.zeros((len(eighths), 1), np.int16)
        factors = prediction.Factors(1, 3, 0, np.append(eighths, np.ones(cells.shape[1])))
        predicted, left = prediction.Prediction(factors, cells.shape), cells.copy()
        predicted.take_from(left)
        assert np.abs(left).max() < prediction.REACH
        assert (left[np.abs(cells - eighths / 8) < 0.5] == 0).all()
        predicted.add_to(left)
        assert np.array_equal(left, cells)

    def test_shapes_that_hold_nothing(self):
        """Before, between and after others."""
        shapes = ((0, 7), (40, 50), (0,), (3,), ())
        part = Indices(torch.arange(0, 2004, 3), 2004, shapes)
        coded = ContextEntropy().apply({"w": part})
        assert torch.equal(ContextEntropy().undo(coded)["w"].values, part.values)

    def test_very_wide_kernels(self):
        """Wider than the sample that chooses between two ways to see them."""
        q = np.zeros((2, 33_000, 3, 3), np.uint8)
        q[1, :500] = np.random.default_rng(14).integers(0, 4, (500, 3, 3))
        nbytes(ContextEntropy(), symbols(q, 4))

    def test_all_that_is_extreme(self):
        """The largest factors, steps and differences still come back."""
        rng = np.random.default_rng(13)
        for base in (2, 255):
            left, right = (rng.integers(0, base, n) for n in (64, 80))
            nbytes(ContextEntropy(), symbols(np.outer(left, right) % 256, 256))
            nbytes(ContextEntropy(), symbols(255 * (left[:, None] > right), 256))


@pytest.mark.parametrize(
    "head",
    [
        bytes([MODELLED, 1, 1, 5]),  # one level needs no model
        bytes([MODELLED, 2, 1, 5, 1, 9, 3]),  # a segment of 9 among 5 symbols
        bytes([MODELLED, 2, 2]) + varint(2**20) + varint(2**20),
        bytes([contexts.MASK]) + varint(2**39) + varint(2**39),
    ],
)
def test_nothing_is_allocated_for_a_lie(head):
    with pytest.raises(WireError):
        undo(ContextEntropy(), head + bytes(8))


def test_blas_has_one_thread_inside_and_as_many_as_before_outside(monkeypatch):
    def num_threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    prediction._blas.cache_clear()  # it knows numpy's; another test may have loaded scipy's since
    inside, best_factors = [], contexts.best_factors
    monkeypatch.setattr(
        contexts,
        "best_factors",
        lambda cells: (inside.append(num_threads()), best_factors(cells))[1],
    )
    part = Symbols((40 * normal(30, 40)).round().clamp(-99, 99).add(128).to(torch.uint8), 256)
    with threadpool_limits(2, user_api="blas"):
        before = num_threads()
        ContextEntropy().apply({"w": part})
        assert num_threads() == before
    assert inside == [{1}]


# ------------------------------------------------------------------------------------- lanes
def call(count, num_values, skew, seed=0):
    """Numbers, and about the distribution that they are from."""
    rng = np.random.default_rng(seed)
    weights = rng.random(num_values) ** skew * 1e5 + 0.3
    numbers = rng.choice(num_values, count, p=weights / weights.sum()).astype(np.int16)
    return numbers, weights


def normal_symbols(count, bits):
    """The symbols of N(0, 1) in so many bits."""
    return Quantize(bits).apply({"w": normal(count)})["w"]


@pytest.fixture
def always(monkeypatch):
    """Lanes also in messages that are too short for them."""
    monkeypatch.setattr(contexts, "num_lanes", lambda bits: lanes.LEAST if bits else 0)


@settings(max_examples=25)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9000), st.integers(2, 300)), min_size=1, max_size=4),
    skew=st.sampled_from([0, 1, 8, 60]),
    number=st.integers(1, 700),
)
def test_what_is_written_is_read(sizes, skew, number):
    calls = [call(count, num_values, skew, seed=k) for k, (count, num_values) in enumerate(sizes)]
    states, words, left = lanes.write_lanes(calls, number)
    assert len(states) == 4 * number
    read = lanes.LaneReader(np.frombuffer(states, np.uint8), np.frombuffer(words, np.uint8))
    for (numbers, weights), rest in zip(calls, left, strict=True):
        got = read.read(len(numbers), weights)
        assert len(got) == len(numbers) - rest
        assert np.array_equal(got, numbers[: len(got)])
    read.expect_end()


@pytest.mark.parametrize("num_values", [2, 3, 15, 16, 17, 256, lanes.MOST_VALUES])
@pytest.mark.parametrize("skew", [0, 3, 100])
def test_frequencies(num_values, skew):
    """All numbers can be coded, whatever their share; frequencies are close to the shares."""
    _, weights = call(1, num_values, skew)
    table = lanes._Table.of(weights)
    assert table.frequencies.min() >= 1
    assert table.frequencies.sum() == 1 << lanes.BITS
    shares, weights = np.ones(1), weights / weights.sum()
    for _ in range(table.group):
        shares = np.outer(shares, weights).reshape(-1)
    used = table.frequencies / (1 << lanes.BITS)
    if num_values < 1000:
        assert (shares * np.log2(shares / used)).sum() <= 0.02 + 0.01 * (shares @ -np.log2(shares))


def test_golden_lanes():
    """Others read these bytes, and compute these frequencies, on all machines."""
    digest = hashlib.sha256()
    for num_values in (2, 4, 16, 250):
        k = np.arange(9001)
        numbers = ((k * k + 7 * k) % 1009 % num_values).astype(np.int16)
        weights = 1.0 + 3 * np.bincount(numbers, minlength=num_values)
        states, words, _ = lanes.write_lanes([(numbers, weights)], 256)
        digest.update(states + words)
    assert digest.hexdigest()[:16] == "5c9c8d683f24c87f"


@pytest.mark.parametrize("bits", [8, 4])
def test_a_large_message_is_hardly_longer(bits, monkeypatch):
    """By half a per cent at most, and the same symbols come back."""
    part = normal_symbols(1_200_000, bits)
    (coded,) = ContextEntropy().apply({"w": part}).values()
    assert coded[0] == LANED
    assert torch.equal(ContextEntropy().undo({NAME: coded})["w"].values, part.values)
    monkeypatch.setattr(contexts, "num_lanes", lambda bits: 0)
    (plain,) = ContextEntropy().apply({"w": part}).values()
    assert plain[0] == MODELLED
    assert torch.equal(ContextEntropy().undo({NAME: plain})["w"].values, part.values)
    assert len(coded) < 1.005 * len(plain)


def test_small_messages_have_no_lanes():
    for count, bits in ((100_000, 8), (200_000, 4), (1_000_000, 1)):
        (coded,) = ContextEntropy().apply({"w": normal_symbols(count, bits)}).values()
        assert coded[0] != LANED


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("num_levels", [3, 16, 256, 1000])
def test_structure_and_segments_in_lanes(num_levels, monkeypatch):
    """Rows and columns of unlike size: many contexts, and several segments in one sequence."""
    monkeypatch.setattr(contexts, "SEGMENT", 100_000)
    rng = np.random.default_rng(0)
    scale = np.exp(rng.normal(size=(400, 1))) * np.exp(rng.normal(size=(1, 600)))
    values = (num_levels / 2 + num_levels / 9 * scale * rng.normal(size=(400, 600))).round()
    values = torch.from_numpy(values.clip(0, num_levels - 1))
    part = Symbols(values.to(torch.uint8 if num_levels <= 256 else torch.int32), num_levels)
    (coded,) = ContextEntropy().apply({"w": part}).values()
    assert coded[0] == LANED
    assert torch.equal(ContextEntropy().undo({NAME: coded})["w"].values, part.values)


@pytest.mark.later
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("bits", [8, 4])
def test_damaged_bytes_are_found(bits):
    """By the lanes themselves: the checksum of a frame would have found them before."""
    (coded,) = ContextEntropy().apply({"w": normal_symbols(30_000, bits)}).values()
    raw = coded.numpy().tobytes()
    assert raw[0] == LANED
    rng, start = np.random.default_rng(1), raw.index(varint(lanes.LEAST), 6) + 4
    end = start + 4 * lanes.LEAST + 4000  # states and words
    for bit in rng.integers(8 * start, 8 * end, 100).tolist():
        bad = bytearray(raw)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            ContextEntropy().undo({NAME: torch.frombuffer(bad, dtype=torch.uint8)})
    for length in range(0, end, 499):
        with pytest.raises(WireError):
            ContextEntropy().undo(
                {NAME: torch.frombuffer(bytearray(raw[:length] + b"\n"), dtype=torch.uint8)}
            )


@pytest.mark.parametrize(
    ("number", "words", "match"),
    [
        (0, 0, "256 to 8192 lanes"),
        (1, 0, "256 to 8192 lanes"),  # each step takes time, whatever it decodes
        (2**40, 0, "256 to 8192 lanes"),
        (256, 2**40, "more bytes than there are"),
        (8192, 0, "more bytes than there are"),
        (256, 0, "from 65536 on"),
    ],
)
def test_lies_are_refused_at_once(number, words, match):
    count = 1 << 22
    head = bytes([LANED]) + varint(16) + varint(1) + varint(count)
    body = varint(1) + varint(64) + varint(number) + varint(words) + bytes(2000)
    start = time.process_time()
    with pytest.raises(WireError, match=match):
        ContextEntropy().undo({NAME: torch.tensor(list(head + body), dtype=torch.uint8)})
    assert time.process_time() - start < 1
