"""The gallery of broken codecs: what went wrong in other systems, and the law that each one breaks.

How to read it. A *law* is a small function that asserts what any codec owes its user. Below it
stand one or more *exhibits*: functions named ``broken_...`` that break this law, in about ten lines
each, and whose first line says where it happened. At the end of the file the table `GALLERY` puts
law, exhibit and our own codec side by side, and there are only two tests: the exhibit fails its
law, ours keeps it. Why test that the broken one fails? Because a law that nothing can break
teaches nothing. The audit (docs/audit.md) names each of these systems.

No exhibit crashes. Training goes on, the loss may even fall, and the table in the paper is wrong.
That is why laws are worth writing down.

All code here is our own, reduced to the one mistake. The systems named do much more, and most of it
well; their published sources were read in 2026 and may be mended by now.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.testing import normal
from fltoolkit.trees import masked_mean
from fltoolkit_research.codecs import QSGD, Sign

# ===========================================================================  1. what arrives
# Here an exhibit is a function from the tensor that was sent to the tensor that arrives.

Trip = Callable[[Tensor], Tensor]


def ours(*stages: Stage) -> Trip:
    """What arrives through a pipeline of these stages: to bytes and back."""
    codec = Pipeline(*stages)
    return lambda x: codec.decode(codec.encode({"x": x}))["x"]


def law_signs_survive(trip: Trip) -> None:
    """What was negative does not arrive positive."""
    x = torch.tensor([0.1, -5.0, 0.2, 3.0])
    assert (trip(x) * x >= 0).all()


def broken_top_k_of_magnitudes(x: Tensor) -> Tensor:
    """Stack Overflow, a question on top-k in TensorFlow Federated.

    Top-k looks for the largest *magnitudes*, so it is called on ``abs(x)``. Its two results are
    values and places, and the values are sent: without their signs. Error feedback makes it worse:
    the residual of a negative value is then not 0 but twice the value, and grows each round.
    """
    values, places = x.abs().topk(2)
    return torch.zeros_like(x).scatter(0, places, values)  # right: x[places]


def law_something_arrives(trip: Trip) -> None:
    """A tensor that is not zero does not arrive as all zeros."""
    assert trip(normal(10_000)).any()


def broken_rounding_down_to_nothing(x: Tensor) -> Tensor:
    """FedML, quantization with 4 bits: multiples of |x| / 15, rounded down.

    |x| is the norm of the whole tensor, and of n values a typical one is |x| / sqrt(n). Of 10,000
    it is a hundredth of |x|: far below the first level, and all of them become 0. QSGD's norm is
    meant for *stochastic* rounding, where every value has its chance.
    """
    step = x.norm() / 15
    return x.sign() * (x.abs() / step).floor() * step


# ============================================================================  2. what it costs
# Here an exhibit says how many bytes the receiver gets.

Weight = Callable[[Tensor], int]


def weighed(*stages: Stage) -> Weight:
    """The length of our message."""
    codec = Pipeline(*stages)
    return lambda x: len(codec.encode({"x": x}))


def law_eight_bits_cost_eight_bits(weigh: Weight) -> None:
    """And some bytes for range, shape and name: less than a hundred, however large the tensor."""
    x = normal(51_200)
    assert weigh(x) <= x.numel() + 100


def broken_four_bits_lie_idle(x: Tensor) -> int:
    """TensorFlow Federated's compression tutorial: "8 bits" that are 9.14.

    Its integers travel as varints, 7 bits to the byte, so 28 bits are the most that fit into 4
    bytes. Therefore each word of 32 bits holds 28 bits of codes: 8 * 32 / 28 = 9.14 bits per value.
    The tutorial prints 507.62 Mibit a round without compression and 146.46 with it. That is a
    factor of 3.47, where 8 bits instead of 32 should give 4.
    """
    codes = (255 * (x - x.min()) / (x.max() - x.min())).round().byte()
    bits = np.unpackbits(codes.numpy())
    words = np.pad(bits, (0, -len(bits) % 28)).reshape(-1, 28)
    message = np.packbits(np.pad(words, ((0, 0), (0, 4)))).tobytes()
    return len(message)


def law_one_bit_costs_one_bit(weigh: Weight) -> None:
    """The sign of a value is a bit."""
    x = normal(8_000)
    assert weigh(x) <= x.numel() / 8 + 100


def broken_a_bit_in_a_byte(x: Tensor) -> int:
    """GRACE, signSGD: "one bit per value", in a tensor of bytes.

    The smallest dtype that torch can send is a byte. Whoever does not pack eight signs into one
    gets a quarter of float32, where the paper promises a thirty-second.
    """
    message = (x >= 0).to(torch.uint8).numpy().tobytes()
    return len(message)


def law_few_levels_few_bytes(weigh: Weight) -> None:
    """Four bits and a sign take less than a byte."""
    x = normal(8_000)
    assert weigh(x) < x.numel()


def broken_levels_as_int32(x: Tensor) -> int:
    """FedLab, QSGD with any number of bits: the level of each value as int32, its sign as bool.

    Ask for 2 bits or for 8: a value takes 32 + 8 = 40. It is as inexact as one of few bits, the
    message is a quarter *larger* than without compression, and only who weighs messages notices.
    """
    levels, signs = (16 * x.abs() / x.abs().max()).int(), x > 0
    message = levels.numpy().tobytes() + signs.numpy().tobytes()
    return len(message)


# ============================================================  3. what is remembered, and by whom
# More such laws, which all codecs keep, stand in fltoolkit/testing.py: of dice, of the sender's own
# tensor, of a message that is read twice.

Round = Callable[[dict[str, Tensor]], dict[str, Tensor]]  # updates by client -> what arrived


def channels_with(codec: Codec) -> Callable[[], Round]:
    """A fresh channel to the server for every run, and rounds over it."""

    def start() -> Round:
        channel = Channel(codecs={"update": codec})
        return lambda updates: {
            client: channel.send(client, "server", "update", {"x": x})["x"]
            for client, x in updates.items()
        }

    return start


def law_clients_do_not_meet(start: Callable[[], Round]) -> None:
    """What arrives from Ann is the same whether or not Ben takes part, first or last."""
    ann, ben = normal(8, seed=1), 5 * normal(8, seed=2)
    alone, together = start(), start()
    for cohort in ({"ann": ann}, {"ann": ann, "ben": ben}, {"ben": ben, "ann": ann}):
        assert torch.equal(together(cohort)["ann"], alone({"ann": ann})["ann"])


def broken_one_residual_for_all() -> Round:
    """FedML, top-k with error feedback: the residual is filed under the name of the tensor.

    Where each client has a compressor of its own, that is enough. Where one object serves them all,
    as in a simulation, Ann sends what Ben could not, in the same round. The curve may even look
    *better* for it: it shows a leak, not a method. A memory needs its owner's name; the number of
    a seat in the round's list is none either.
    """
    residual = torch.zeros(8)

    def play(updates: dict[str, Tensor]) -> dict[str, Tensor]:
        nonlocal residual
        arrived = {}
        for client, x in updates.items():
            places = (wanted := x + residual).abs().topk(2).indices
            arrived[client] = torch.zeros_like(x).scatter(0, places, wanted[places])
            residual = wanted - arrived[client]
        return arrived

    return play


Mean = Callable[[list[Tensor], list[Tensor]], Tensor]  # values and masks by client -> the mean


def our_masked_mean(values: list[Tensor], masks: list[Tensor]) -> Tensor:
    trees, sent = ([{"x": x} for x in tensors] for tensors in (values, masks))
    return masked_mean(trees, sent, [1] * len(trees))["x"]


def law_the_mean_of_those_who_sent(mean: Mean) -> None:
    """A negative value counts, a zero that was sent counts, and where nobody sent it stays 0."""
    ann, ben = torch.tensor([-4.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, 0.0])
    ann_sent, ben_sent = torch.tensor([True, True, False]), torch.tensor([False, True, False])
    assert torch.equal(mean([ann, ben], [ann_sent, ben_sent]), torch.tensor([-4.0, 1.0, 0.0]))


def broken_mask_from_values(values: list[Tensor], _masks: list[Tensor]) -> Tensor:
    """The question on Stack Overflow again: who sent is read off the values, ``value > 0``.

    It goes unnoticed as long as all signs are lost. With them, negative values count as not sent,
    and so does a zero that was sent. Where nobody sent, 0 / 0 makes NaN of the model.
    """
    total = torch.stack(values).sum(0)
    return total / torch.stack([x > 0 for x in values]).sum(0)


# ==================================================================================  the gallery

TOP_K = ErrorFeedback(Pipeline(TopK(0.25)))

GALLERY = [  # law, who breaks it, and ours
    (law_signs_survive, broken_top_k_of_magnitudes, ours(TopK(0.5))),
    (law_something_arrives, broken_rounding_down_to_nothing, ours(QSGD(15))),
    # what it costs
    (law_eight_bits_cost_eight_bits, broken_four_bits_lie_idle, weighed(Quantize(8))),
    (law_one_bit_costs_one_bit, broken_a_bit_in_a_byte, weighed(Sign())),
    (law_few_levels_few_bytes, broken_levels_as_int32, weighed(QSGD(16))),
    # what is remembered, and by whom
    (law_clients_do_not_meet, broken_one_residual_for_all, channels_with(TOP_K)),
    (law_the_mean_of_those_who_sent, broken_mask_from_values, our_masked_mean),
]
NAMES = [f"{law.__name__[4:]}-{broken.__name__[7:]}" for law, broken, _ in GALLERY]


@pytest.mark.parametrize(("law", "broken", "ours"), GALLERY, ids=NAMES)
class TestGallery:
    def test_the_broken_one_fails(self, law, broken, ours):
        with pytest.raises(AssertionError):
            law(broken)

    def test_ours_passes(self, law, broken, ours):
        law(ours)
