"""Coders: exact inverses, near the entropy, below it where there is structure, robust."""

import math
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from fltoolkit.codecs import BitPack, Deflate, Entropy, Zstd
from fltoolkit.codecs import _contexts as contexts
from fltoolkit.codecs import _outer_products as prediction
from fltoolkit.codecs import coders as entropy
from fltoolkit.codecs.coders import CODED
from fltoolkit.codecs.stage import Indices, Symbols, side
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, varint

NAME = side("w", CODED)
CODERS = [BitPack(), Entropy(), Deflate(), Zstd()]
each_coder = pytest.mark.parametrize("coder", CODERS, ids=repr)


@pytest.fixture(autouse=True)
def _zstandard_may_be_missing(request):
    if "Zstd" in request.node.name:
        pytest.importorskip("zstandard")


def symbols(values, num_levels):
    dtype = torch.uint8 if num_levels <= 256 else torch.int32
    return Symbols(torch.as_tensor(np.asarray(values)).to(dtype), num_levels)


def places(values, size):
    return Indices(torch.as_tensor(np.asarray(values, np.int64)), size)


def nbytes(coder, part):
    """Of the coded entry; checks that it comes back."""
    coded = coder.apply({"w": part})
    assert list(coded) == [NAME]
    assert (coded[NAME].dtype, coded[NAME].dim()) == (torch.uint8, 1)
    (back,) = coder.undo({NAME: coded[NAME].clone()}).values()
    assert type(back) is (Symbols if isinstance(part, Symbols) else Indices)
    assert back[1] == part[1]
    assert back.values.dtype == part.values.dtype
    assert back.values.shape == part.values.shape
    assert torch.equal(back.values, part.values)
    return coded[NAME].numel()


def empirical_nbytes(values):
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


class TestRoundTrip:
    @each_coder
    @settings(max_examples=60)
    @given(data=st.data())
    def test_symbols(self, coder, data):
        num_levels = data.draw(st.one_of(st.integers(1, 300), st.integers(1, 65536)))
        shape = data.draw(st.lists(st.integers(0, 9), max_size=4))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        power = data.draw(st.sampled_from([1, 4, 30]))  # skewed towards zero
        nbytes(coder, symbols((rng.random(shape) ** power * num_levels).astype(int), num_levels))

    @each_coder
    @settings(max_examples=60)
    @given(data=st.data())
    def test_indices(self, coder, data):
        size = data.draw(st.one_of(st.integers(0, 50), st.integers(0, 20_000)))
        share = data.draw(st.sampled_from([0, 0.001, 0.03, 0.2, 0.7, 1]))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        nbytes(coder, places(np.flatnonzero(rng.random(size) < share), size))

    @each_coder
    @pytest.mark.parametrize("num_levels", [1, 2, 3, 4, 17, 255, 256, 257, 1000, 4096, 65536])
    def test_larger_shapes(self, coder, num_levels):
        rng = np.random.default_rng(num_levels)
        for shape in [(4001,), (64, 65), (30, 10, 3, 3), (0, 7), ()]:
            nbytes(coder, symbols(rng.integers(0, num_levels, shape), num_levels))
            nbytes(coder, symbols(np.full(shape, num_levels - 1), num_levels))

    @each_coder
    def test_few_places_far_apart(self, coder):
        nbytes(coder, places([], 1 << 40))
        nbytes(coder, places([0], 1))
        nbytes(coder, places([3, 2**33, 2**40 - 1], 1 << 40))

    @each_coder
    def test_other_entries_keep_name_place_and_values(self, coder):
        x = torch.randn(3)
        parts = {"a": x, "b": symbols([1, 0], 2), side("b", "r"): x, side("b", "s"): symbols([], 4)}
        coded = coder.apply(parts)
        assert list(coded) == ["a", side("b", CODED), side("b", "r"), side(side("b", "s"), CODED)]
        assert coded["a"] is x
        assert list(coder.undo(coded)) == list(parts)

    def test_strided_symbols(self):
        nbytes(Entropy(), Symbols(torch.arange(100).byte().view(10, 10).t()[::2], 100))

    def test_large_tensors_are_cut_into_segments(self, monkeypatch):
        monkeypatch.setattr(contexts, "SEGMENT", 5000)
        _, q = dense_update(np.random.default_rng(0), rows=100, columns=300)
        segments = contexts._segments([q.shape])
        assert [length for length, _ in segments] == [4800] * 5 + [6000]
        nbytes(Entropy(), symbols(q, 256))

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
    def test_wrong_input_is_named(self, part, match):
        with pytest.raises(ValueError, match=match):
            BitPack().apply({"w": part})


class TestFormat:
    """BitPack's bytes change on purpose only: others read them."""

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            # method, levels, dimensions, dimension; bytes: 1 low and 3 high, 2 low and 4 high
            (symbols([1, 2, 3, 4], 16), "00 10 01 04 31 42"),
            (symbols([[1, 0], [2, 3]], 4), "00 04 02 02 02 e1"),
            (symbols([1, 0, 1, 1, 0, 0, 0, 0, 1], 2), "00 02 01 09 13 02"),
            (symbols([5, 2, 7], 8), "00 08 01 03 39 05"),
            # five of 3 bits as one number of 15 bits, which saves a byte: 5 + 8 (2 + 8 (7 + ...
            (symbols([5, 2, 7, 1, 6], 8), "00 08 01 05 d5 63"),
            (symbols([0, 255], 256), "00 80 02 01 02 00 ff"),
            (symbols([256, 1], 65536), "00 80 80 04 01 02 00 01 01 00"),
            (symbols([0, 0, 0], 1), "00 01 01 03"),
            # method, size, count; Rice parameter 2, remainders 3 2 2, quotients 0 1 1 in unary
            (places([3, 10, 17], 100), "03 64 03 02 2b 15"),
            (places([0, 2, 3, 6], 8), "04 08 04 4d"),
        ],
    )
    def test_golden(self, part, expected):
        assert BitPack().apply({"w": part})[NAME].numpy().tobytes().hex(" ") == expected

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (
                symbols(np.arange(400).reshape(20, 20) % 7 == 0, 2),
                "08020214140114efffff7fd3921d7de1be7d1d8e2d219a30b9d2276ab187fb04b5ee515aa0d2a003f6caca",
            ),
            (
                symbols(
                    8 + (np.arange(16) ** 2 % 13 - 6)[:, None] * (np.arange(16) % 11 - 5) // 7, 16
                ),
                "0810021010011063ffff8f64afa7de3bd81b6bb7edf78645222988f9760e22dd5b104df141d1fc6f457f545397160ec47bb6ee",
            ),
        ],
        ids=["places", "low rank"],
    )
    def test_golden_entropy(self, part, expected):
        """Decoded to the bit, on any machine and with any version of constriction and numpy."""
        data = torch.tensor(list(bytes.fromhex(expected)), dtype=torch.uint8)
        assert torch.equal(Entropy().undo({NAME: data})["w"].values, part.values)
        assert nbytes(Entropy(), part) <= len(data)

    @pytest.mark.parametrize("bits", range(1, 17))
    def test_no_byte_is_wasted(self, bits, monkeypatch):
        """Ten values of 7 bits take 9 bytes; and what rounds more often up is read as before."""
        for count in (*range(1, 18), 1000, 1003):
            part = symbols(np.arange(count) * 40_503 % 2**bits, 2**bits)
            header = len(varint(2**bits)) + len(varint(count)) + 2
            assert nbytes(BitPack(), part) == header + -(-count * bits // 8)
            with monkeypatch.context() as earlier:
                earlier.setattr(entropy, "_is_tight", lambda *_: False)
                before = BitPack().apply({"w": part})
            assert before[NAME].numel() >= header + -(-count * bits // 8)
            assert torch.equal(BitPack().undo(before)["w"].values, part.values)


class TestMemoryless:
    """Within 1 % and 88 bytes of the empirical entropy, headers included."""

    @pytest.mark.parametrize("bits", [8, 4, 2])
    @pytest.mark.parametrize("shape", [(50,), (1000,), (20_000,), (500, 600), (50, 20, 5, 5)])
    def test_gaussian(self, bits, shape):
        q = gaussian(math.prod(shape), bits).reshape(shape)
        bound = empirical_nbytes(q)
        size = nbytes(Entropy(), symbols(q, 2**bits))
        assert size <= 1.01 * bound + 88
        if q.size > 10_000:
            assert size > 0.99 * bound  # or the entropy is not what it should be
            assert nbytes(BitPack(), symbols(q, 2**bits)) > 1.1 * bound

    def test_skewed_and_sparse_alphabets(self):
        rng = np.random.default_rng(0)
        for q in (rng.random(30_000) < 0.01, 40 * rng.integers(0, 6, 30_000)):
            assert nbytes(Entropy(), symbols(q, 256)) <= 1.02 * empirical_nbytes(q) + 88

    @pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
    def test_random_places(self, share):
        size = 1_000_000
        part = places(np.flatnonzero(np.random.default_rng(1).random(size) < share), size)
        bound = choices_nbytes(size, len(part.values))
        assert 0.999 * bound < nbytes(Entropy(), part) <= 1.02 * bound + 8
        assert nbytes(BitPack(), part) <= 1.055 * bound + 8

    @pytest.mark.parametrize("coder", [Deflate(), Zstd()], ids=repr)
    def test_others_come_close(self, coder):
        q = gaussian(100_000, 8)
        assert nbytes(coder, symbols(q, 256)) <= 1.05 * empirical_nbytes(q)


class TestStructure:
    """Far below the entropy of symbols taken one by one."""

    @pytest.mark.parametrize(("bits", "factor"), [(8, 0.75), (4, 0.95)])
    def test_dense_update(self, bits, factor):
        _, q = dense_update(np.random.default_rng(2), bits=bits)
        size = nbytes(Entropy(), symbols(q, 2**bits))
        assert size < factor * empirical_nbytes(q)
        assert size < min(
            nbytes(Deflate(), symbols(q, 2**bits)), nbytes(Zstd(), symbols(q, 2**bits))
        )
        shuffled = np.random.default_rng(3).permutation(q.reshape(-1)).reshape(q.shape)
        assert nbytes(Entropy(), symbols(shuffled, 2**bits)) > 0.99 * empirical_nbytes(q)

    def test_kernels_with_a_scale_each(self):
        rng = np.random.default_rng(4)
        x = rng.normal(size=(64, 32, 5, 5)) * np.exp(1.5 * rng.normal(size=(64, 32, 1, 1)))
        q = (np.round(x / np.abs(x).max() * 127) + 128).astype(np.uint8)
        assert nbytes(Entropy(), symbols(q, 256)) < 0.95 * empirical_nbytes(q)

    @pytest.mark.parametrize("share", [0.1, 0.01])
    def test_clustered_places(self, share):
        update, _ = dense_update(np.random.default_rng(5))
        size = update.size
        top = np.sort(np.argsort(-np.abs(update).reshape(-1))[: int(share * size)])
        known = Indices(torch.from_numpy(top), size, (update.shape,))
        coded = Entropy().apply({"w": known})
        assert torch.equal(Entropy().undo(coded)["w"].values, known.values)
        assert coded[NAME].numel() < 0.6 * choices_nbytes(size, len(top))
        assert coded[NAME].numel() < 0.8 * nbytes(Entropy(), places(top, size))  # without shapes

    def test_places_of_several_tensors_with_known_shapes(self):
        """Each tensor is a matrix of its own; tiny ones in between do no harm."""
        rng = np.random.default_rng(8)
        updates = [dense_update(rng, 100, columns)[0] for columns in (300, 7, 441)]
        updates.insert(1, np.ones(10) * 1e9)
        x = np.concatenate([update.reshape(-1) for update in updates])
        part = places(np.sort(np.argsort(-np.abs(x))[: len(x) // 20]), len(x))

        shapes = tuple(update.shape for update in updates)
        coded = Entropy().apply({"w": Indices(part.values, part.size, shapes)})
        assert torch.equal(Entropy().undo(coded)["w"].values, part.values)
        assert coded[NAME].numel() < 0.9 * nbytes(Entropy(), part)

    def test_short_forms_are_kept_where_they_win(self):
        for part in (symbols([1, 2, 3], 4), symbols([7], 256), places([5], 1000)):
            assert nbytes(Entropy(), part) <= nbytes(BitPack(), part)


class TestPrediction:
    """What outer products tell of a cell, and that both sides compute the same."""

    def test_few_outer_products(self):
        """Of rank 3: far below the entropy; shuffled, or without shape, nothing is left to see."""
        rng = np.random.default_rng(10)
        x = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 400))
        q = np.clip(np.round(8 * x) + 128, 0, 255).astype(np.uint8)
        size = nbytes(Entropy(), symbols(q, 256))
        assert size < 0.45 * empirical_nbytes(q)
        shuffled = rng.permutation(q.reshape(-1)).reshape(q.shape)
        assert nbytes(Entropy(), symbols(shuffled, 256)) > 0.99 * empirical_nbytes(q)
        assert nbytes(Entropy(), symbols(q.reshape(-1), 256)) > 0.9 * empirical_nbytes(q)

    def test_noise_has_no_rank(self):
        noise = np.random.default_rng(11).normal(size=(200, 300))
        assert prediction._factors(np.round(5 * noise).astype(np.int16)).rank == 0

    @pytest.mark.parametrize("size", [5, 63])
    def test_a_single_row_or_column(self, size):
        for shape in [(size, 1), (1, size), (4000, 1), (1, 4000)]:
            rng = np.random.default_rng(size)
            nbytes(Entropy(), symbols(rng.integers(0, 3, shape), 3))
            nbytes(Entropy(), symbols(rng.integers(0, 200, shape), 256))

    def test_float32_adds_up_factors_exactly(self):
        """In any order: the largest sum of the largest products stays below 2**24."""
        assert prediction.RANK * prediction.FACTOR**2 < 2**24
        rng = np.random.default_rng(12)
        left = rng.integers(-prediction.FACTOR, prediction.FACTOR + 1, (100, prediction.RANK))
        right = rng.integers(-prediction.FACTOR, prediction.FACTOR + 1, (prediction.RANK, 100))
        assert np.array_equal(left.astype(np.float32) @ right.astype(np.float32), left @ right)

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
        coded = Entropy().apply({"w": part})
        assert torch.equal(Entropy().undo(coded)["w"].values, part.values)

    def test_very_wide_kernels(self):
        """Wider than the sample that chooses between two ways to see them."""
        q = np.zeros((2, 33_000, 3, 3), np.uint8)
        q[1, :500] = np.random.default_rng(14).integers(0, 4, (500, 3, 3))
        nbytes(Entropy(), symbols(q, 4))

    def test_all_that_is_extreme(self):
        """The largest factors, steps and differences still come back."""
        rng = np.random.default_rng(13)
        for base in (2, 255):
            left, right = (rng.integers(0, base, n) for n in (64, 80))
            nbytes(Entropy(), symbols(np.outer(left, right) % 256, 256))
            nbytes(Entropy(), symbols(255 * (left[:, None] > right), 256))


def coded_parts():
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


class TestDamage:
    """A WireError, or something well-formed; soon, and never anything else."""

    @staticmethod
    def check(coder, raw):
        start = time.process_time()
        tensor = torch.from_numpy(np.frombuffer(bytes(raw), np.uint8).copy())
        try:
            part = coder.undo({NAME: tensor})["w"]
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

    @each_coder
    @pytest.mark.parametrize(
        ("name", "part"), list(coded_parts()), ids=lambda p: p if isinstance(p, str) else ""
    )
    def test_cuts_and_flips(self, coder, name, part):
        raw = coder.apply({"w": part})[NAME].numpy().tobytes()
        for length in range(0, len(raw), max(1, len(raw) // 400)):
            self.check(coder, raw[:length])
        rng = np.random.default_rng(7)
        for bit in [*range(min(96, 8 * len(raw))), *rng.integers(0, 8 * len(raw), 200).tolist()]:
            bad = bytearray(raw)
            bad[bit // 8] ^= 1 << bit % 8
            self.check(coder, bad)

    @settings(max_examples=300)
    @given(method=st.integers(0, 11), rest=st.binary(max_size=60))
    def test_any_bytes(self, method, rest):
        self.check(Entropy(), bytes([method]) + rest)

    def test_nothing_is_allocated_for_a_lie(self):
        """Headers that are well-formed, and impossible."""
        for head in (
            bytes([entropy.PACKED, 1, 1]) + varint(2**39),
            bytes([entropy.MODELLED, 1, 1, 5]),  # one level needs no model
            bytes([entropy.MODELLED, 2, 1, 5, 1, 9, 3]),  # a segment of 9 among 5 symbols
            bytes([entropy.RICE, 100, 1, 62, 255]),  # gaps of 2**62 below 100
            bytes([entropy.MODELLED, 2, 2]) + varint(2**20) + varint(2**20),
            bytes([entropy.PACKED, 2, 2, 0]) + varint(2**57),
            bytes([entropy.MASK]) + varint(2**39) + varint(2**39),
            bytes([entropy.RICE]) + varint(2**40) + varint(2**40),
        ):
            with pytest.raises(WireError):
                BitPack().undo({NAME: torch.tensor(list(head + bytes(8)), dtype=torch.uint8)})

    @pytest.mark.parametrize("coder", [Deflate(), Zstd()], ids=repr)
    def test_long_constant_tensors_are_vouched_for(self, coder):
        for one in (coder, Entropy(), BitPack()):
            assert nbytes(one, symbols(np.zeros(3_000_000), 1)) < 3_000_000 / 2048
        assert nbytes(coder, symbols(np.zeros(3_000_000), 256)) < 3_000_000 / 512

    @pytest.mark.parametrize(
        "entry", [torch.zeros(3), torch.zeros(2, 2).byte(), torch.zeros(0).byte()]
    )
    def test_entries_of_another_kind(self, entry):
        with pytest.raises(WireError, match="'w"):
            Entropy().undo({NAME: entry})

    def test_coded_and_as_it_is(self):
        coded = BitPack().apply({"w": symbols([1], 2)})
        with pytest.raises(WireError, match="twice"):
            BitPack().undo({**coded, "w": torch.zeros(1)})


def test_missing_zstandard_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match="pip install zstandard"):
        Zstd().apply({"w": symbols([1], 2)})


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
        Entropy().apply({"w": part})
        assert num_threads() == before
    assert inside == [{1}]
