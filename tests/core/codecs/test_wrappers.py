"""Codecs around a codec: what they remember, what they refuse, and what all of them share."""

import copy
import math

import pytest
import torch

from experiments.replications.lowrank import PowerSGD
from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Identity, Only, Pipeline, Quantize, TopK
from fltoolkit.codecs.base import walk
from fltoolkit.codecs.wrappers import Wrapper
from fltoolkit.testing import normal
from fltoolkit.wire import WireError, pack, unpack
from fltoolkit_research.codecs import DRIVE, Difference


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(TopK(0.05), Quantize(4, stochastic=True)),
        Pipeline(PowerSGD(1)),
        Pipeline(PowerSGD(2), Quantize(8)),
        Pipeline(DRIVE(unbiased=False)),
    ],
    ids=repr,
)
def test_error_feedback_loses_nothing(codec):
    """The sum of all inputs is the sum of all that was sent plus the residual."""
    forgetful, codec = copy.deepcopy(codec), ErrorFeedback(copy.deepcopy(codec))
    total, sent, without = torch.zeros(3, 30, 40)
    for seed in range(30):
        update = normal(30, 40, seed=99) + 0.1 * normal(30, 40, seed=seed)
        total += update
        sent += codec.decode(codec.encode({"w": update}))["w"]
        without += forgetful.decode(forgetful.encode({"w": update}))["w"]
    torch.testing.assert_close(total, sent + codec.residual["w"], rtol=0, atol=1e-4)
    assert codec.residual["w"].norm() > 1  # there was something to lose
    assert (sent - total).norm() < 0.7 * (without - total).norm()


def test_a_decaying_residual_forgets():
    """By hand: x = tree + decay * residual, and what top-k leaves out is the new residual."""
    codec = ErrorFeedback(Pipeline(TopK(0.5)), decay=0.5)
    sent, left = [], []
    for tree in ([4.0, 2.0], [0.0, 0.25], [3.0, 0.5]):
        sent.append(codec.decode(codec.encode({"w": torch.tensor(tree)}))["w"].tolist())
        left.append(codec.residual["w"].tolist())
    assert sent == [[4.0, 0.0], [0.0, 1.25], [3.0, 0.0]]
    assert left == [[0.0, 2.0], [0.0, 0.0], [0.0, 0.5]]
    assert repr(codec) == "ErrorFeedback(Pipeline(TopK(fraction=0.5, scope='model')), decay=0.5)"
    for decay in (-0.1, 1.1, math.nan, None):
        with pytest.raises(ValueError, match="the share of the residual"):
            ErrorFeedback(Pipeline(), decay=decay)


def test_only_takes_what_it_made():
    codec = Only(Pipeline(Quantize(8)), min_size=4)
    entries = unpack(codec.encode({"w": normal(6), "b": normal(2)}))
    for change in (
        {"\x1f": torch.zeros(2, dtype=torch.bfloat16)},
        {"\x1f": torch.zeros(2, dtype=torch.int64)},
        {"w": normal(6)},
        {"b\x1fr": normal(2)},
    ):
        with pytest.raises(WireError):
            codec.decode(pack({**entries, **change}))
    for name in ("\x1f", "b\x1fr"):
        with pytest.raises(ValueError, match="a name must not hold the character 0x1f"):
            codec.encode({name: normal(2)})


@pytest.mark.parametrize(
    "codec", [ErrorFeedback(Only(Pipeline(Quantize(8)), 100)), Difference(Identity())], ids=repr
)
def test_one_nan_does_not_stay(codec):
    channel, good = Channel({"update": codec}), {"b": torch.ones(3)}
    channel.send("ann", "server", "update", good)
    with pytest.raises(ValueError, match="'b' holds NaN or infinite"):
        channel.send("ann", "server", "update", {"b": torch.tensor([1.0, math.nan, 1.0])})
    assert torch.equal(channel.send("ann", "server", "update", good)["b"], good["b"])


def test_a_wrapper_of_ones_own_is_four_lines():
    class Negated(Wrapper):
        def encode(self, tree):
            return self.codec.encode({name: -t for name, t in tree.items()})

        def decode(self, message):
            return {name: -t for name, t in self.codec.decode(message).items()}

    codec = Negated(ErrorFeedback(Pipeline(TopK(0.5))))
    assert repr(codec) == f"Negated({codec.codec!r})"
    assert [type(part).__name__ for part in walk(codec)] == [
        *("Negated", "ErrorFeedback", "Pipeline", "TopK")
    ]
    channel = Channel({"update": codec})
    tree = {"w": torch.tensor([1.0, -3.0])}
    received, masks = channel.send_masked("ann", "server", "update", tree)
    assert received["w"].tolist() == [0, -3]
    assert masks["w"].tolist() == [False, True]
    assert channel.send("ann", "server", "update", {"w": torch.zeros(2)})["w"].tolist() == [1, 0]
    assert codec.codec.residual == {}  # links have copies


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("inner", [Identity(), Pipeline()], ids=repr)
@pytest.mark.parametrize("size", [2, 9])
def test_nan_and_infinity_do_not_pass_only(inner, value, size):
    """Neither as a small entry nor, through a codec that carries them, as a large one."""
    codec, bad = Only(inner, min_size=5), torch.full((size,), value)
    with pytest.raises(ValueError, match="'w' holds NaN or infinite"):
        codec.encode({"w": bad})
    large, exact = ({"w": bad}, {}) if size >= 5 else ({}, {"w": bad})
    frame = torch.frombuffer(bytearray(pack(large)), dtype=torch.uint8)
    with pytest.raises(WireError, match="'w' holds NaN or infinite"):
        codec.decode(pack({"\x1f": frame, **exact}))


def test_an_infinite_sum_does_not_stay_in_a_residual():
    class Losing(Identity):
        """Sends zeros, and would carry infinity."""

        def encode(self, tree):
            return pack({name: 0 * t for name, t in tree.items()})

    codec, huge = ErrorFeedback(Losing()), {"w": torch.tensor([3e38])}
    codec.encode(huge)
    with pytest.raises(ValueError, match="'w' holds NaN or infinite"):
        codec.encode(huge)
    assert codec.residual["w"].tolist() == huge["w"].tolist()


def test_a_message_that_fails_leaves_what_was_owed():
    codec = ErrorFeedback(Pipeline(TopK(0.5)))
    codec.encode({"w": torch.tensor([3.0, 2.0])})
    with pytest.raises(ValueError, match="must not hold the character"):
        codec.encode({"w": torch.tensor([5.0, 7.0]), "a\x1fb": torch.ones(1)})
    assert codec.residual["w"].tolist() == [0, 2]


def test_residuals_overwrite_nothing_of_others():
    """A residual takes the place of a sum: not of the caller's tensor, nor of a saved state."""
    codec, x = ErrorFeedback(Pipeline(TopK(0.3))), normal(50)
    kept, update = x.clone(), {"w": x}
    codec.encode(update)
    saved = codec.state_dict()["residual"]
    before = saved["w"].clone()
    for _ in range(2):
        codec.encode(update)
        assert torch.equal(x, kept)
        assert torch.equal(saved["w"], before)
        assert not torch.equal(codec.residual["w"], before)


@pytest.mark.later
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_residual_does_not_forget_small_values(dtype):
    """What is sent and what is still owed are together what was put in, after 800 messages."""
    codec = ErrorFeedback(Pipeline(TopK(0.5)))
    update = {"w": torch.tensor([8.0, -8.0, 0.01, 0.01], dtype=dtype)}
    sent = torch.zeros(4, dtype=torch.float64)
    for _ in range(800):
        received = codec.decode(codec.encode(update))["w"]
        assert received.dtype == dtype
        sent += received
    owed = codec.residual["w"].double()
    torch.testing.assert_close(sent + owed, 800 * update["w"].double(), rtol=1e-3, atol=0)


def test_a_residual_of_16_bits_does_not_overflow():
    codec = ErrorFeedback(Pipeline(TopK(0.25)))
    update = {"w": torch.tensor([60_000.0, -60_000.0, 50_000.0, 1.0], dtype=torch.float16)}
    for _ in range(5):
        assert codec.decode(codec.encode(update))["w"].isfinite().all()
