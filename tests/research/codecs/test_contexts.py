"""Lanes: an exact inverse, hardly longer than a range coder, the same bytes for ever, robust."""

import hashlib
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fltoolkit.codecs import Entropy, Quantize, coders
from fltoolkit.codecs import _contexts as contexts
from fltoolkit.codecs import _lanes as lanes
from fltoolkit.codecs.coders import CODED
from fltoolkit.codecs.stage import Symbols, side
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, varint

NAME = side("w", CODED)


def call(count, num_values, skew, seed=0):
    """Numbers, and about the distribution that they are from."""
    rng = np.random.default_rng(seed)
    weights = rng.random(num_values) ** skew * 1e5 + 0.3
    numbers = rng.choice(num_values, count, p=weights / weights.sum()).astype(np.int16)
    return numbers, weights


def reader(states, words):
    return lanes.LaneReader(np.frombuffer(states, np.uint8), np.frombuffer(words, np.uint8))


def gaussian(count, bits):
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
    read = reader(states, words)
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


def test_groups_are_as_large_as_is_cheap():
    bell = 1e6 * np.exp(-(np.linspace(-5, 5, 16) ** 2) / 2) + 0.3
    assert lanes._Table.of(bell).group == 2
    assert lanes._Table.of(np.ones(4)).group == 4
    assert lanes._Table.of(np.ones(2)).group == 8
    assert lanes._Table.of(np.ones(17)).group == 1
    assert lanes._Table.of(np.array([1e6, 10.0])).group == 1  # rare ones would cost too much


def test_golden():
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
    part = gaussian(1_200_000, bits)
    (coded,) = Entropy().apply({"w": part}).values()
    assert coded[0] == coders.LANED
    assert torch.equal(Entropy().undo({NAME: coded})["w"].values, part.values)
    monkeypatch.setattr(contexts, "num_lanes", lambda bits: 0)
    (plain,) = Entropy().apply({"w": part}).values()
    assert plain[0] == coders.MODELLED
    assert torch.equal(Entropy().undo({NAME: plain})["w"].values, part.values)
    assert len(coded) < 1.005 * len(plain)


def test_small_messages_have_no_lanes():
    for count, bits in ((100_000, 8), (200_000, 4), (1_000_000, 1)):
        (coded,) = Entropy().apply({"w": gaussian(count, bits)}).values()
        assert coded[0] != coders.LANED


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
    (coded,) = Entropy().apply({"w": part}).values()
    assert coded[0] == coders.LANED
    assert torch.equal(Entropy().undo({NAME: coded})["w"].values, part.values)


@pytest.mark.later
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("bits", [8, 4])
def test_damaged_bytes_are_found(bits):
    """By the lanes themselves: the checksum of a frame would have found them before."""
    (coded,) = Entropy().apply({"w": gaussian(30_000, bits)}).values()
    raw = coded.numpy().tobytes()
    assert raw[0] == coders.LANED
    rng, start = np.random.default_rng(1), raw.index(varint(lanes.LEAST), 6) + 4
    end = start + 4 * lanes.LEAST + 4000  # states and words
    for bit in rng.integers(8 * start, 8 * end, 100).tolist():
        bad = bytearray(raw)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            Entropy().undo({NAME: torch.frombuffer(bad, dtype=torch.uint8)})
    for length in range(0, end, 499):
        with pytest.raises(WireError):
            Entropy().undo(
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
    head = bytes([coders.LANED]) + varint(16) + varint(1) + varint(count)
    body = varint(1) + varint(64) + varint(number) + varint(words) + bytes(2000)
    start = time.process_time()
    with pytest.raises(WireError, match=match):
        Entropy().undo({NAME: torch.tensor(list(head + body), dtype=torch.uint8)})
    assert time.process_time() - start < 1
