"""Samples without loss: every form is the smallest somewhere, and each reads back exactly."""

import bz2
import lzma

import numpy as np
import pytest
import torch

from fltoolkit import Channel, load
from fltoolkit.codecs import Pipeline, Quantize
from fltoolkit.codecs.coders import CODED
from fltoolkit.codecs.stage import Symbols, side
from fltoolkit.testing import TREES, Conformance
from fltoolkit.wire import WireError, pack
from fltoolkit_research.pooled import Distinct, Smallest, beside_the_data, lossless, lossless_nbytes
from fltoolkit_research.pooled.compressors import BZ2, ENTROPY, LZMA, PREDICTED

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    "codec", [lossless(), lossless(Quantize(2)), Pipeline(Distinct())], ids=repr
)
class TestConformance(Conformance):
    trees = TREES


def form_of(part):
    (coded,) = Smallest().apply({"x": part}).values()
    back = Smallest().undo({side("x", CODED): coded})["x"]
    assert torch.equal(back.values, part.values)
    assert (back.values.dtype, back.num_levels) == (part.values.dtype, part.num_levels)
    return int(coded[0]), len(coded)


@pytest.mark.later
def test_each_form_is_the_smallest_somewhere():
    text = torch.tensor([*b"to be or not to be, that is the question. "], dtype=torch.uint8)
    independent = torch.from_numpy((RANDOM.random(20_000) < 0.03).astype(np.uint8))
    stripes = (torch.arange(90_000) % 251).byte()
    sent = [(text.repeat(200), 128), (independent, 2), (stripes, 251)]
    steps = RANDOM.integers(-3, 4, (40, 32, 32)).cumsum(1).cumsum(2)  # as in a photograph
    smooth = torch.from_numpy(np.clip(steps + 128, 0, 255).astype(np.uint8))
    sent += [(smooth, 256), (RANDOM_WORDS, 256)]
    found = {form_of(Symbols(values, levels))[0] for values, levels in sent}
    assert found == {ENTROPY, PREDICTED, LZMA, BZ2}


WORDS = [bytes(RANDOM.integers(97, 123, int(RANDOM.integers(3, 9))).tolist()) for _ in range(300)]
RANDOM_WORDS = torch.from_numpy(
    np.frombuffer(b" ".join(WORDS[i] for i in RANDOM.integers(0, 300, 20_000)), np.uint8).copy()
)


def test_it_is_never_longer_than_its_opponents():
    digits = load("digits_known_writers").x_train
    pixels = torch.searchsorted(digits.unique(), digits).byte()
    _, nbytes = form_of(Symbols(pixels, 17))
    whole = pixels.numpy().tobytes()
    assert nbytes <= min(len(lzma.compress(whole)), len(bz2.compress(whole))) + 12


def test_more_than_256_levels():
    numbers = torch.arange(5000, dtype=torch.int32).repeat(3)
    form_of(Symbols(numbers, 5000))
    assert torch.equal(lossless().decode(lossless().encode({"n": numbers.long()}))["n"], numbers)


def test_pixels_come_back_bit_by_bit_and_in_little():
    data = load("digits_known_writers")
    message = lossless().encode({"x": data.x_train})
    back = lossless().decode(message)["x"]
    assert torch.equal(back.view(torch.int32), data.x_train.view(torch.int32))
    assert len(message) < 29_000 < data.x_train.numel() / 2


def test_zero_keeps_its_sign_and_many_values_go_as_they_are():
    signs = {"x": torch.tensor([0.0, -0.0, 1.0, 0.0] * 8)}
    back = Pipeline(Distinct()).decode(Pipeline(Distinct()).encode(signs))["x"]
    assert torch.equal(back.signbit(), signs["x"].signbit())
    new = {"x": torch.linspace(0, 1, 1000)}
    assert len(lossless().encode(new)) < 4020
    assert torch.equal(lossless().decode(lossless().encode(new))["x"], new["x"])


def test_a_small_message_cannot_ask_for_much_memory():
    bomb = bz2.compress(bytes(1 << 24))
    shape = b"\x02\x01" + b"\x80\x80\x80\x80\x08"  # 2 levels, 1 dimension of 2**31
    entry = torch.frombuffer(bytearray(bytes([BZ2]) + shape + bomb), dtype=torch.uint8)
    raw = Pipeline(Smallest())
    with pytest.raises(WireError):
        raw.decode(pack({side("x", CODED): entry}))
    eight = torch.frombuffer(bytearray(bytes([BZ2, 2, 1, 8]) + bomb), dtype=torch.uint8)
    few = Smallest().undo({side("x", CODED): eight})["x"]
    assert few.values.tolist() == [0] * 8, "no more than was announced is unpacked"
    with pytest.raises(WireError, match=r"expected 8 bytes of symbols|damaged"):
        Smallest().undo({side("x", CODED): eight[:20].clone()})


@pytest.mark.later
def test_times_the_data():
    data = load("digits_known_writers")
    nbytes = lossless_nbytes(data.x_train, data.y_train)
    channel = Channel({"samples": lossless(), "labels": lossless()})
    order = data.y_train.argsort(stable=True)
    channel.send("a", "b", "samples", {"x": data.x_train[order]})
    channel.send("a", "b", "labels", {"y": data.y_train[order]})
    assert channel.nbytes() == nbytes
    about = lossless_nbytes(data.x_train, data.y_train, sample=500)
    assert abs(about / nbytes - 1) < 0.15
    line = beside_the_data(10 * nbytes, data.x_train, data.y_train)
    assert "10 times the data" in line
    assert "29.0 kB" in line
