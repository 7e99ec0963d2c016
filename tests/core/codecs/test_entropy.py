"""Entropy coding at the bound; and its range coder twice: the same bytes, read by either."""

import hashlib
import math
import sys

import numpy as np
import pytest
import torch
from coder_laws import (
    CoderLaws,
    choices_nbytes,
    entropy_nbytes,
    gaussian,
    nbytes,
    places,
    symbols,
    undo,
)

from fltoolkit.codecs import BitPack, Entropy, entropy
from fltoolkit.codecs.entropy import COUNTED, SHARED, Compiled, Plain
from fltoolkit.codecs.stage import Symbols
from fltoolkit.wire import WireError, varint

SIZES = [2, 3, 4, 17, 256, 1024, 4081]  # of alphabets, up to the largest ones
both = pytest.mark.parametrize("coder", [Plain, Compiled], ids=lambda coder: coder.name)


@pytest.fixture(autouse=True)
def _constriction_may_be_missing(request):
    if "plain" not in request.node.name:
        pytest.importorskip("constriction")


def random_calls(seed):
    """Calls as coders make them: adapted counts, equal weights, falling weights, very skew ones.

    The numbers are likely ones, or any; also none, or one.
    """
    rng = np.random.default_rng(seed)
    for _ in range(rng.integers(0, 7)):
        size = int(rng.choice(SIZES))
        weights = (
            rng.integers(0, 1000, size) + rng.random() / 3 + 1e-9,
            np.ones(size),
            1 / (1 + np.arange(size)) ** 2,
            rng.random(size) ** 60 + 1e-300,
        )[rng.integers(4)]
        count = int(rng.choice([0, 1, 2, 8, 200, 2000]))
        likely = weights / weights.sum() if rng.random() < 0.7 else None
        yield rng.choice(size, count, p=likely).astype(np.int16), weights


def check(calls):
    """Written by both, the bytes are equal; read by either, the numbers are those given."""
    written = Plain.write(calls)
    assert written == Compiled.write(calls)
    for coder in (Plain, Compiled):
        reader = coder(written)
        for numbers, weights in calls:
            assert np.array_equal(reader.read(len(numbers), weights), numbers)
    return written


@pytest.mark.parametrize("seed", range(20))
def test_both_write_the_same(seed):
    for part in range(10):
        check([*random_calls((seed, part))])


def test_messages_that_hold_nothing():
    one, nothing = np.zeros(1, np.int16), np.zeros(0, np.int16)
    for calls in ([], [(nothing, np.ones(2))], [(one, np.array([1e9, 1.0]))]):
        assert check(calls) == b""


@pytest.mark.parametrize("size", [2, 5, 4096])
def test_nearly_all_equal(size):
    """One number has all but the least of the frequency: 2^24 - size + 1."""
    weights = np.full(size, 1e-30)
    weights[size // 2] = 1
    numbers = np.full(5000, size // 2, np.int16)
    assert len(check([(numbers, weights)])) <= 8
    numbers[[7, -1]] = 0, size - 1
    check([(numbers, weights)])


@pytest.mark.parametrize("count", [90, 91, 92, 93, 150])
def test_a_carry_goes_through_many_words(count):
    """The interval lies around a point at which nine words change; then it goes to one side."""
    weights = np.array([3.0, 5.0, 4.0])
    middle = Plain(b"\xff\xff\xff\x7f" + b"\xff" * 32).read(count, weights)
    ends = [check([(np.append(middle, np.full(70, side)), weights)]) for side in (0, 2)]
    assert [end[3] for end in ends] == [0x7F, 0x80]
    assert ends[0][4:12] == b"\xff" * 8
    assert ends[1][:12] == b"\0\0\0\x80" + b"\0" * 8


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_are_read_alike(seed):
    """Both give the same numbers, or both give up; half of these begin with the highest bits."""
    rng = np.random.default_rng(seed)
    words = b"\xff" * (seed % 2 * 8) + rng.bytes(int(rng.integers(0, 50)))
    weights = rng.random(int(rng.choice(SIZES))) + 1e-3

    def read(coder):
        try:
            return coder(words).read(300, weights).tolist()
        except WireError as error:
            return str(error)

    assert read(Plain) == read(Compiled)
    assert isinstance(read(Plain), str) == (seed % 2 == 1)


@both
def test_the_bytes_are_those_of_today(coder):
    """From whole numbers, so on any machine: 300,000 numbers in all."""
    n, calls = np.arange(30_000), []
    for size in (2, 3, 16, 255, 256, 511, 1000, 2000, 4000, 4096):
        weights = 1.0 + (np.arange(size) * 40_503 % 1009) ** 2 % 977
        calls.append(((n * n // 7 + n) * 2_654_435 % 1_000_003 % size, weights))
    written = coder.write(calls)
    assert len(written) == 326_516
    assert hashlib.sha256(written).hexdigest()[:16] == "f85b3030ba768285"
    reader = coder(written)
    assert all(np.array_equal(reader.read(len(n), w), numbers) for numbers, w in calls)


def test_plain_is_used_where_constriction_is_missing(monkeypatch):
    assert Entropy().range_coder == "constriction"
    monkeypatch.setitem(sys.modules, "constriction", None)
    entropy.range_coder.cache_clear()
    try:
        assert Entropy().range_coder == "plain"
    finally:
        entropy.range_coder.cache_clear()


# ------------------------------------------------------------------------------------- the stage
@pytest.mark.parametrize("coder", [Entropy()], ids=repr)
class TestEntropy(CoderLaws):
    """All of them."""


@pytest.mark.parametrize("bits", [8, 4, 2])
@pytest.mark.parametrize("shape", [(50,), (1000,), (20_000,), (500, 600), (50, 20, 5, 5)])
def test_symbols_take_their_entropy(bits, shape):
    """And of 256 levels less than 130 bytes for their counts, headers included."""
    q = gaussian(math.prod(shape), bits).reshape(shape)
    bound, counts = entropy_nbytes(q), {8: 130, 4: 24, 2: 16}[bits]
    size = nbytes(Entropy(), symbols(q, 2**bits))
    assert size <= 1.001 * bound + counts
    if q.size > 10_000:
        assert size > bound
        assert nbytes(BitPack(), symbols(q, 2**bits)) > 1.1 * bound


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_places_take_the_bound(share):
    size = 1_000_000
    part = places(np.flatnonzero(np.random.default_rng(1).random(size) < share), size)
    bound = choices_nbytes(size, len(part.values))
    assert bound < nbytes(Entropy(), part) <= bound + 12 + size / 50_000


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint16, torch.int32, torch.int64])
def test_whole_numbers_of_any_dtype_are_symbols(dtype):
    q = torch.arange(5000) % 2
    for num_levels in (2, 1000):
        expected = Entropy().apply({"w": Symbols(q.to(torch.int32), num_levels)})
        found = Entropy().apply({"w": Symbols(q.to(dtype), num_levels)})
        assert all(torch.equal(found[name], part) for name, part in expected.items())
    with pytest.raises(TypeError):
        Entropy().apply({"w": Symbols(q.float(), 2)})


def test_short_forms_are_kept_where_they_win():
    for part in (symbols([1, 2, 3], 4), symbols([7], 256), places([5], 1000)):
        assert nbytes(Entropy(), part) <= nbytes(BitPack(), part)


@pytest.mark.parametrize(
    "entry",
    [
        bytes([COUNTED, 1, 1, 5]) + bytes(8),  # one level needs no counts
        bytes([COUNTED, 4, 1, 5]) + b"\xff" * 12,  # counts below 0
        bytes([COUNTED, 2, 2]) + varint(2**20) + varint(2**20) + bytes(8),
        bytes([SHARED]) + varint(2**39) + varint(2**39) + bytes(8),
    ],
)
def test_lies_are_refused(entry):
    with pytest.raises(WireError):
        undo(Entropy(), entry)
