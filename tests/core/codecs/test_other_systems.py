"""The gallery of broken codecs: what went wrong in other systems, and the law that each one breaks.

How to read it. A *law* is a small function that asserts what any codec owes its user. Below it
stand one or more *exhibits*: functions named ``broken_...`` that break this law, in about ten lines
each, and whose first line says where it happened. At the end of the file the table `GALLERY` puts
law, exhibit and our own codec side by side, and there are only two tests: the exhibit fails its
law, ours keeps it. Why test that the broken one fails? Because a law that nothing can break
teaches nothing.

No exhibit crashes. Training goes on, the loss may even fall, and the table in the paper is wrong.
That is why laws are worth writing down.

All code here is our own, reduced to the one mistake. The systems named do much more, and most of it
well; their published sources were read in 2026 and may be mended by now.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.testing import normal
from fltoolkit.trees import masked_mean
from fltoolkit_research.codecs import DRIVE, QSGD, STC, Sign

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


def law_better_than_silence(trip: Trip) -> None:
    """|C(x) - x| <= |x|: who reads the message is no further off than who assumes zeros.

    Every biased codec promises this, and a little more: that makes error feedback converge.
    """
    x = normal(1000)
    assert (trip(x) - x).norm() <= x.norm()


def broken_not_of_a_byte(x: Tensor) -> Tensor:
    """GRACE, one-bit SGD: the mean of the negative values, or that of the others, by a bit mask.

    The mask travels as bytes 0 and 1, and the receiver writes ``~mask`` for "not". Of a bool that
    is right. Of a byte it makes 255 of 0, and 254 of 1: whatever was sent, about 255 times the
    positive mean arrives.
    """
    negative = (x < 0).to(torch.uint8)
    low, high = x[x < 0].mean(), x[x >= 0].mean()
    return negative * low + ~negative * high  # right: (1 - negative) * high


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


def law_a_constant_is_exact(trip: Trip) -> None:
    """One value repeated: no range to divide, so nothing to lose."""
    x = torch.full((50,), 3.7)
    assert torch.equal(trip(x), x)


def law_any_range_will_do(trip: Trip) -> None:
    """The error depends on the width of the range, not on where it lies."""
    x = torch.linspace(100, 101, 50)
    assert (trip(x) - x).abs().max() <= 1 / 255


def broken_zero_must_be_a_level(x: Tensor) -> Tensor:
    """SecretFlow, zero-point quantization to 8 bits.

    The method comes from inference, where 0 must be a level of its own (images are padded with
    it), so the level of 0 is forced into -128 ... 127. For values from 100 to 101 it lies 25,500
    levels below: everything is clipped to the top level, and that now means 1. The step of a
    constant is 0: 3.7 / 0 is clipped to the top level, and the top level times 0 is 0.
    """
    step = (x.max() - x.min()) / 255
    zero = (-128 - x.min() / step).clamp(-128, 127)
    q = (x / step + zero).clamp(-128, 127).round()
    return (q - zero) * step


def law_the_largest_value_stays_large(trip: Trip) -> None:
    """The ends of the range are levels, and no rounding leads beyond them."""
    x = torch.tensor([0.5, 1.5, 2.5, 254.5, 255.5])
    assert (trip(x) - x).abs().max() <= 0.51


def broken_two_roundings(x: Tensor) -> Tensor:
    """SecretFlow, "LSTM" quantization: round(x * scale) - round(lowest * scale), in one byte.

    Two roundings that mostly agree. But halves go to the even number, so 0.5 goes down to 0 and
    255.5 up to 256. The difference, 256, does not fit into a byte. It wraps around to 0, and the
    largest value of all arrives as the smallest.
    """
    scale = 255 / (x.max() - x.min())
    lowest = (x.min() * scale).round()
    q = ((x * scale).round() - lowest).to(torch.int32).to(torch.uint8)
    return (q + lowest) / scale


def law_at_least_one_at_most_k(trip: Trip) -> None:
    """Of 4 values, 10 % is 0.4: one arrives. Not none, and not all."""
    assert trip(normal(4)).count_nonzero() == 1


def broken_the_last_minus_zero(x: Tensor) -> Tensor:
    """SecretFlow, top-k: ``order[-k:]``, the last k of the places in ascending order.

    For a small tensor k rounds to 0. And ``order[-0:]`` is not the last none of them: -0 is 0, so
    it is all of them. Biases travel whole, and pay for their places besides.
    """
    k = round(0.1 * x.numel())
    places = x.abs().argsort()[-k:]
    return torch.zeros_like(x).scatter(0, places, x[places])


def law_nan_never_passes_silently(trip: Trip) -> None:
    """A tensor with NaN in it is refused, or the NaN arrives."""
    x = torch.tensor([1.0, float("nan"), 2.0, -3.0])
    try:
        arrived = trip(x)
    except ValueError:
        return
    assert arrived[1].isnan()


def broken_nothing_reaches_nan(x: Tensor) -> Tensor:
    """The code published with sparse ternary compression: keep what reaches the k-th magnitude.

    When training diverges NaN appears, and sorting puts it above all numbers: the threshold *is*
    NaN. But ``x >= NaN`` is false for every x, so nothing is kept. The server receives zeros, as
    from a client that has converged.
    """
    threshold = x.abs().topk(1).values[-1]
    return torch.where(x.abs() >= threshold, x, 0)


def law_zeros_stay_zeros(trip: Trip) -> None:
    """ReLU activations and dead units: fewer than k values differ from 0. No others arrive."""
    x = torch.zeros(100)
    x[[3, 50, 99]] = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(trip(x) != 0, x != 0)


def broken_zero_is_at_most_minus_zero(x: Tensor) -> Tensor:
    """The same code, ternary: +mean from the threshold upwards, -mean from its negative downwards.

    If fewer than k values differ from 0, the threshold is 0. And 0 <= -0 is true: each zero
    becomes -mean, having been +mean one line earlier.
    """
    top = x.abs().topk(10).values
    mean, threshold = top.mean(), top[-1]
    up = torch.where(x >= threshold, mean, 0)
    return torch.where(x <= -threshold, -mean, up)


# ============================================================================  2. what it costs
# Here an exhibit says what was sent, in bytes, and what the system's own meter says was sent.


class Bill(NamedTuple):
    sent: int  # bytes that the receiver needs
    metered: float  # bytes that were charged


def billed(*stages: Stage) -> Callable[[Tensor], Bill]:
    """The length of our message, and what the channel's ledger says it is."""

    def send(x: Tensor) -> Bill:
        codec, channel = Pipeline(*stages), Channel(codecs={"update": Pipeline(*stages)})
        channel.send("client", "server", "update", {"x": x})
        return Bill(len(codec.encode({"x": x})), channel.nbytes())

    return send


def law_eight_bits_cost_eight_bits(send: Callable[[Tensor], Bill]) -> None:
    """And some bytes for range, shape and name: less than a hundred, however large the tensor."""
    x = normal(51_200)
    assert send(x).sent <= x.numel() + 100


def broken_four_bits_lie_idle(x: Tensor) -> Bill:
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
    return Bill(len(message), len(message))


def law_one_bit_costs_one_bit(send: Callable[[Tensor], Bill]) -> None:
    """The sign of a value is a bit."""
    x = normal(8_000)
    assert send(x).sent <= x.numel() / 8 + 100


def broken_a_bit_in_a_byte(x: Tensor) -> Bill:
    """GRACE, signSGD: "one bit per value", in a tensor of bytes.

    The smallest dtype that torch can send is a byte. Whoever does not pack eight signs into one
    gets a quarter of float32, where the paper promises a thirty-second.
    """
    message = (x >= 0).to(torch.uint8).numpy().tobytes()
    return Bill(len(message), len(message))


def law_few_levels_few_bytes(send: Callable[[Tensor], Bill]) -> None:
    """Four bits and a sign take less than a byte."""
    x = normal(8_000)
    assert send(x).sent < x.numel()


def broken_levels_as_int32(x: Tensor) -> Bill:
    """FedLab, QSGD with any number of bits: the level of each value as int32, its sign as bool.

    Ask for 2 bits or for 8: a value takes 32 + 8 = 40. It is as inexact as one of few bits, the
    message is a quarter *larger* than without compression, and only who weighs messages notices.
    """
    levels, signs = (16 * x.abs() / x.abs().max()).int(), x > 0
    message = levels.numpy().tobytes() + signs.numpy().tobytes()
    return Bill(len(message), len(message))


def law_half_of_the_values_is_less_than_all(send: Callable[[Tensor], Bill]) -> None:
    """Top-k at 50 % is smaller than the tensor."""
    x = normal(100, 80)
    assert send(x).sent < x.nbytes


def broken_places_as_rows_and_columns(x: Tensor) -> Bill:
    """SecretFlow, top-k of activations: value, row and column of each kept one.

    The value takes 4 bytes, row and column 8 each, as int64. So half of the values is half of 20
    bytes for each 4 that were there: 2.5 times the tensor. Only below 20 % it begins to save. A
    bitmap says where for one bit per value.
    """
    places = x.abs().reshape(-1).topk(x.numel() // 2).indices
    rows, columns = np.unravel_index(places.numpy(), x.shape)
    message = x.reshape(-1)[places].numpy().tobytes() + rows.tobytes() + columns.tobytes()
    return Bill(len(message), len(message))


def law_few_nonzeros_few_bytes(send: Callable[[Tensor], Bill]) -> None:
    """ReLU data once more: top-k sends k values, also where fewer than k differ from 0."""
    x = torch.zeros(10_000)
    x[::1000] = 1 + torch.arange(10.0)
    assert send(x).sent <= 8 * 100 + 100


def broken_all_reach_the_threshold(x: Tensor) -> Bill:
    """GRACE, deep gradient compression: send what reaches a threshold, found by trial.

    If too many do, the threshold is raised by 30 %. On ReLU data it starts at 0, as the k-th
    magnitude is 0, and 30 % more than 0 is 0. After ten attempts everything is sent, with places.
    """
    threshold = x.abs().topk(100).values[-1]
    for _ in range(10):
        if (x.abs() >= threshold).sum() > 1.3 * 100:
            threshold *= 1.3
    places = torch.where(x.abs() >= threshold)[0]
    message = x[places].numpy().tobytes() + places.numpy().tobytes()
    return Bill(len(message), len(message))


def law_the_meter_weighs_the_message(send: Callable[[Tensor], Bill]) -> None:
    """What is charged is the length of what was sent."""
    bill = send(normal(300))
    assert bill.metered == bill.sent


def broken_one_place_for_all(x: Tensor) -> Bill:
    """google-research/federated, the top-k that other methods are compared with.

    Its bit rate is a formula: k values of 32 bits, plus ceil(log2 n) bits for the place. For *one*
    place: a factor k is missing. With 1 % kept of 1,663,370 parameters it says 0.32 bits a
    parameter; with 21 bits for each place they would be 0.53.
    """
    places = x.abs().topk(30).indices.int()
    message = x[places].numpy().tobytes() + places.numpy().tobytes()
    return Bill(len(message), (32 * len(places) + np.ceil(np.log2(x.numel()))) / 8)


def broken_padding_travels_free(x: Tensor) -> Bill:
    """fedjax, rotated quantization and DRIVE: charged by parameters, sent by powers of two.

    The fast Hadamard transform works on 2, 4, 8, ... values, so 300 are padded with zeros to 512.
    After the rotation these are zeros no longer: all 512 must be sent. The formula counts 300.
    (google-research/federated counts DRIVE's 512, and divides by 512 to get bits per value.)
    """
    padded = torch.nn.functional.pad(x, (0, 512 - x.numel()))
    hadamard = torch.ones(1, 1)
    while len(hadamard) < len(padded):
        hadamard = torch.kron(hadamard, torch.tensor([[1.0, 1.0], [1.0, -1.0]]))
    signs = np.packbits((hadamard @ padded >= 0).numpy())
    return Bill(len(signs) + 4, x.numel() / 8 + 4)  # 4 for the scale


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


def top_two(x: Tensor) -> Tensor:
    places = x.abs().topk(2).indices
    return torch.zeros_like(x).scatter(0, places, x[places])


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
            arrived[client] = top_two(wanted := x + residual)
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
    (law_better_than_silence, broken_not_of_a_byte, ours(Sign())),
    (law_something_arrives, broken_rounding_down_to_nothing, ours(QSGD(15))),
    (law_a_constant_is_exact, broken_zero_must_be_a_level, ours(Quantize(8))),
    (law_any_range_will_do, broken_zero_must_be_a_level, ours(Quantize(8))),
    (law_the_largest_value_stays_large, broken_two_roundings, ours(Quantize(8))),
    (law_at_least_one_at_most_k, broken_the_last_minus_zero, ours(TopK(0.1))),
    (law_nan_never_passes_silently, broken_nothing_reaches_nan, ours(TopK(0.25))),
    (law_zeros_stay_zeros, broken_zero_is_at_most_minus_zero, ours(STC(0.1))),
    # what it costs
    (law_eight_bits_cost_eight_bits, broken_four_bits_lie_idle, billed(Quantize(8))),
    (law_one_bit_costs_one_bit, broken_a_bit_in_a_byte, billed(Sign())),
    (law_few_levels_few_bytes, broken_levels_as_int32, billed(QSGD(16))),
    (law_half_of_the_values_is_less_than_all, broken_places_as_rows_and_columns, billed(TopK(0.5))),
    (law_few_nonzeros_few_bytes, broken_all_reach_the_threshold, billed(TopK(0.01))),
    (law_the_meter_weighs_the_message, broken_one_place_for_all, billed(TopK(0.1))),
    (law_the_meter_weighs_the_message, broken_padding_travels_free, billed(DRIVE())),
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


def test_nothing_stands_in_the_cellar():
    """Every law and every exhibit of this file hangs in the gallery, with a label."""
    hung = {thing for law, broken, _ in GALLERY for thing in (law, broken)}
    here = {t for name, t in globals().items() if name.startswith(("law_", "broken_"))}
    assert here == hung
    assert all(thing.__doc__ for thing in here)
