"""Small messages of strangers do not become gigabytes, and honest ones are never refused."""

import math
import zlib

import numpy as np
import pytest
import torch

from experiments.replications.deflate import Deflate
from experiments.replications.lowrank import PowerSGD
from experiments.replications.zstandard import Zstd
from fltoolkit.codecs import BitPack, Entropy, Half, Pipeline, Quantize, TopK
from fltoolkit.codecs.coders import CODED
from fltoolkit.codecs.stage import Symbols, side
from fltoolkit.testing import normal
from fltoolkit.wire import FREE_VALUES, WireError, most_values, pack, unpack, varint, write_layout
from fltoolkit_research.codecs import EDEN, QSGD, STC, BFloat16, LloydMax, RandomK, Rotate, Sign
from fltoolkit_research.codecs.contexts import SMALL, read_grids

HUGE = 1 << 27  # values: half a gigabyte


def packed(shape, num_levels=1, payload=b""):
    """Symbols as `BitPack` writes them; those of one level take no bits."""
    head = varint(num_levels) + varint(len(shape)) + b"".join(map(varint, shape))
    return b"\0" + head + payload


def deflated(entry):
    return b"\x06" + zlib.compress(entry)


def as_bytes(raw):
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


def layout(*shape, name=""):
    return as_bytes(write_layout(((name, torch.float32, shape),)))


RANGE = torch.tensor([[0.0, 1.0]])
CONSTANT = bytes(HUGE // 4096)  # what vouches for HUGE symbols that are all alike
TWICE = deflated(packed([HUGE], 256, bytes(HUGE // 500)))


def low_rank(name, side_length):
    """A square matrix as a product of vectors whose values are all alike."""
    symbols = deflated(packed([1, 2 * side_length], 256, bytes(2 * side_length)))
    return {
        side(name, CODED): as_bytes(symbols),
        side(name, "r"): RANGE,
        side(name, "~"): layout(side_length, side_length),
    }


FORGED = {
    "symbols": (
        Pipeline(Quantize(8), Deflate()),
        {side("w", CODED): as_bytes(deflated(packed([HUGE], 1, CONSTANT))), side("w", "r"): RANGE},
    ),
    "a coder that was not asked": (
        Pipeline(Quantize(8)),
        {side("w", CODED): as_bytes(TWICE), side("w", "r"): RANGE},
    ),
    "low rank": (Pipeline(PowerSGD(1), Quantize(8), Deflate()), low_rank("w", 12_000)),
    "sparse": (
        Pipeline(TopK(1e-7)),
        {
            "*": torch.ones(13),
            side("*", "@") + side("", CODED): as_bytes(
                b"\x03" + varint(HUGE) + varint(13) + b"\0" + b"\xff\x1f"
            ),
            side("*", ":"): layout(HUGE, name="w"),
        },
    ),
    "random places": (
        Pipeline(RandomK(1e-7)),
        {
            "*": torch.ones(13),
            side("*", "?"): torch.tensor(0, dtype=torch.int32),
            side("*", ":"): layout(HUGE, name="w"),
        },
    ),
    "many at once": (
        Pipeline(PowerSGD(1), Quantize(8), Deflate()),
        {name: part for i in range(20) for name, part in low_rank(f"w{i}", 4000).items()},
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_small_message_does_not_become_gigabytes(case):
    codec, entries = FORGED[case]
    message = pack(entries)
    assert len(message) < 1_000_000
    with pytest.raises(WireError, match=r"may be|expected a method of this coder"):
        codec.decode(message)


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(Quantize(1)),
        Pipeline(Quantize(1), Entropy()),
        Pipeline(Quantize(1), Deflate()),
        Pipeline(Sign(), Zstd()),
        Pipeline(QSGD(1), Entropy()),
        Pipeline(STC(1e-6), Entropy()),
        Pipeline(RandomK(1e-6)),
        Pipeline(TopK(1e-6), Quantize(1), Entropy()),
        Pipeline(PowerSGD(1), Quantize(1), Entropy()),
    ],
    ids=repr,
)
def test_honest_messages_are_never_refused(codec, monkeypatch):
    """The worst case: more values than are free, all alike, and next to none of them sent."""
    if "Zstd" in repr(codec):
        pytest.importorskip("zstandard")
    monkeypatch.setattr("fltoolkit.wire.FREE_VALUES", 0)
    message = codec.encode({"w": torch.full((1000, 1000), 0.5)})
    assert codec.decode(message)["w"].shape == (1000, 1000)
    assert most_values(len(message)) >= 1_000_000


@pytest.mark.later
def test_only_what_needs_it_is_padded():
    """Seventeen million values: sixteen are free, and few bytes must vouch for the others."""
    codec, n = Pipeline(RandomK(1e-6)), FREE_VALUES + 4096 * 1000
    message = codec.encode({"w": torch.zeros(n)})
    assert 1000 <= len(message) < 1050
    assert codec.decode(message)["w"].shape == (n,)
    assert len(codec.encode({"w": torch.zeros(FREE_VALUES)})) < 150


@pytest.mark.parametrize("other", [BitPack(), Entropy(), Deflate(), Zstd()], ids=repr)
@pytest.mark.parametrize("own", [BitPack(), Entropy(), Deflate(), Zstd()], ids=repr)
def test_a_coder_reads_only_what_it_may_have_written(own, other):
    if "Zstd" in repr((own, other)):
        pytest.importorskip("zstandard")
    part = Symbols(torch.zeros(40, 50, dtype=torch.uint8), 16)
    coded = other.apply({"w": part})
    if type(own) is type(other) or type(other) is BitPack:
        assert torch.equal(own.undo(coded)["w"].values, part.values)
    else:
        with pytest.raises(WireError, match=r"'w': .*expected a method of this coder"):
            own.undo(coded)


def test_a_grid_in_thousands_of_pieces_is_refused():
    count = 100 * SMALL
    pieces = varint(5000) + b"\x01\x01" * 4999 + b"\x01" + bytes(1000)
    with pytest.raises(WireError, match="5000 segments are too many"):
        read_grids(np.frombuffer(pieces, np.uint8), count, 4)
    pieces = varint(3) + b"\x01\x01" * 2 + b"\x01" + bytes(1000)
    with pytest.raises(WireError, match="not possible"):
        read_grids(np.frombuffer(pieces, np.uint8), count, 4)


def test_thousands_of_dimensions_are_refused_before_they_are_multiplied():
    entry = b"\0" + varint(16) + varint(50_000) + b"\xff" * 8 * 50_000
    with pytest.raises(WireError, match="at most 15 dimensions, found 50000"):
        BitPack().undo({side("w", CODED): as_bytes(entry)})


# ------------------------------------------------------------------------------ NaN and infinity
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "stage",
    [
        Half(),
        BFloat16(),
        TopK(0.5),
        TopK(0.5, scope="tensor"),
        RandomK(0.5),
        STC(0.5),
        Rotate(),
        PowerSGD(1),
        Quantize(4),
        LloydMax(2),
        EDEN(2),
    ],
    ids=repr,
)
def test_every_stage_refuses_nan_and_infinity(stage, value):
    """By itself, before a pipeline looks at what came out."""
    parts = stage.apply({"w": normal(20, 30)})
    for name, part in parts.items():
        if isinstance(part, torch.Tensor) and part.is_floating_point():
            bad = part.clone()
            bad.view(-1)[-1] = value
            with pytest.raises(WireError, match=r"'w'|'\*'"):
                stage.undo({**parts, name: bad})


def test_padding_is_no_way_in():
    message = pack({**unpack(Pipeline().encode({"w": normal(3)})), "\x1f0": torch.zeros(7)})
    assert list(Pipeline().decode(message)) == ["w"]
