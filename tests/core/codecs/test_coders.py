"""Coders of fixed width: their bytes are others' format, and forged ones are refused."""

import numpy as np
import pytest
import torch
from coder_laws import NAME, CoderLaws, choices_nbytes, nbytes, places, symbols, undo

from fltoolkit.codecs import BitPack
from fltoolkit.codecs.coders import PACKED, RICE
from fltoolkit.wire import WireError, varint


@pytest.mark.parametrize("coder", [BitPack()], ids=repr)
class TestBitPack(CoderLaws):
    """All of them."""


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
def test_golden(part, expected):
    assert BitPack().apply({"w": part})[NAME].numpy().tobytes().hex(" ") == expected
    assert torch.equal(undo(BitPack(), bytes.fromhex(expected)).values, part.values)


@pytest.mark.parametrize("bits", range(1, 17))
def test_no_byte_is_wasted(bits):
    """Ten values of 7 bits take 9 bytes."""
    for count in (*range(1, 18), 1000, 1003):
        part = symbols(np.arange(count) * 40_503 % 2**bits, 2**bits)
        header = len(varint(2**bits)) + len(varint(count)) + 2
        assert nbytes(BitPack(), part) == header + -(-count * bits // 8)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_gaps_are_near_the_bound(share):
    size = 1_000_000
    part = places(np.flatnonzero(np.random.default_rng(1).random(size) < share), size)
    assert nbytes(BitPack(), part) <= 1.055 * choices_nbytes(size, len(part.values)) + 8


@pytest.mark.parametrize(
    "head",
    [
        bytes([PACKED, 1, 1]) + varint(2**39),
        bytes([PACKED, 2, 2, 0]) + varint(2**57),
        bytes([RICE, 100, 1, 62, 255]),  # gaps of 2**62 below 100
        bytes([RICE]) + varint(2**40) + varint(2**40),
    ],
)
def test_nothing_is_allocated_for_a_lie(head):
    """Headers that are well-formed, and impossible."""
    with pytest.raises(WireError):
        undo(BitPack(), head + bytes(8))


def test_a_bitmap_has_as_many_ones_as_it_says():
    with pytest.raises(WireError, match="3 ones, found 4"):
        undo(BitPack(), bytes.fromhex("0408034d"))
