"""The gallery of broken codecs: what went wrong in other systems, and the law that each one breaks.

A *law* asserts what any codec owes its user; a function named ``broken_...`` breaks it, in a few
lines of our own, as some system did that docs/audit.md names and cites. Each exhibit must fail its
law, because a law that nothing can break teaches nothing; our own codec keeps it. No exhibit
crashes: training goes on, and the table in the paper is wrong. The systems named do much more, and
most of it well; their sources were read in 2026 and may be mended by now.
"""

import numpy as np
import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.testing import normal
from fltoolkit.trees import masked_mean
from fltoolkit_research.codecs import QSGD, Sign


# ---- what arrives: an exhibit goes from the tensor that was sent to the tensor that arrives
def arriving(stage):
    codec = Pipeline(stage)
    return lambda x: codec.decode(codec.encode({"x": x}))["x"]


def law_signs_survive(trip):
    x = torch.tensor([0.1, -5.0, 0.2, 3.0])
    assert (trip(x) * x >= 0).all()


def broken_top_k_of_magnitudes(x):
    """A question on Stack Overflow: top-k of ``abs(x)``, whose values are sent without signs."""
    values, places = x.abs().topk(2)
    return torch.zeros_like(x).scatter(0, places, values)  # right: x[places]


def law_something_arrives(trip):
    assert trip(normal(10_000)).any()


def broken_rounding_down_to_nothing(x):
    """FedML, 4 bits: multiples of |x| / 15, rounded down; of 10,000 values each is far below."""
    step = x.norm() / 15
    return x.sign() * (x.abs() / step).floor() * step


# ---- what it costs: an exhibit says how many bytes the receiver gets
def weighed(stage):
    return lambda x: len(Pipeline(stage).encode({"x": x}))


def law_eight_bits_cost_eight_bits(weigh):
    x = normal(51_200)
    assert weigh(x) <= x.numel() + 100  # range, shape and name, however large the tensor


def broken_four_bits_lie_idle(x):
    """TensorFlow Federated's tutorial: varints of 4 bytes hold 28 bits, so 8 bits are 9.14."""
    codes = (255 * (x - x.min()) / (x.max() - x.min())).round().byte()
    bits = np.unpackbits(codes.numpy())
    words = np.pad(bits, (0, -len(bits) % 28)).reshape(-1, 28)
    return len(np.packbits(np.pad(words, ((0, 0), (0, 4)))).tobytes())


def law_one_bit_costs_one_bit(weigh):
    x = normal(8_000)
    assert weigh(x) <= x.numel() / 8 + 100


def broken_a_bit_in_a_byte(x):
    """GRACE, signSGD: the sign of each value in a tensor of bytes, the smallest that torch has."""
    return len((x >= 0).to(torch.uint8).numpy().tobytes())


def law_few_levels_few_bytes(weigh):
    x = normal(8_000)
    assert weigh(x) < x.numel()  # four bits and a sign


def broken_levels_as_int32(x):
    """FedLab, QSGD with any number of bits: each level as int32 and its sign as bool, 40 bits."""
    levels, signs = (16 * x.abs() / x.abs().max()).int(), x > 0
    return len(levels.numpy().tobytes() + signs.numpy().tobytes())


# ---- what is remembered, and by whom: a round goes from updates by client to what arrived
def over_a_channel():
    channel = Channel({"update": ErrorFeedback(Pipeline(TopK(0.25)))})
    return lambda updates: {
        client: channel.send(client, "server", "update", {"x": x})["x"]
        for client, x in updates.items()
    }


def law_clients_do_not_meet(start):
    """What arrives from Ann is the same whether or not Ben takes part, first or last."""
    ann, ben = normal(8, seed=1), 5 * normal(8, seed=2)
    alone, together = start(), start()
    for cohort in ({"ann": ann}, {"ann": ann, "ben": ben}, {"ben": ben, "ann": ann}):
        assert torch.equal(together(cohort)["ann"], alone({"ann": ann})["ann"])


def broken_one_residual_for_all():
    """FedML, top-k: the residual belongs to a tensor's name, so Ann sends what Ben could not."""
    residual = torch.zeros(8)

    def play(updates):
        nonlocal residual
        arrived = {}
        for client, x in updates.items():
            places = (wanted := x + residual).abs().topk(2).indices
            arrived[client] = torch.zeros_like(x).scatter(0, places, wanted[places])
            residual = wanted - arrived[client]
        return arrived

    return play


def our_masked_mean(values, masks):
    trees, sent = ([{"x": x} for x in tensors] for tensors in (values, masks))
    return masked_mean(trees, sent, [1] * len(trees))["x"]


def law_the_mean_of_those_who_sent(mean):
    """A negative value counts, a zero that was sent counts, and where nobody sent it stays 0."""
    ann, ben = torch.tensor([-4.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, 0.0])
    ann_sent, ben_sent = torch.tensor([True, True, False]), torch.tensor([False, True, False])
    assert torch.equal(mean([ann, ben], [ann_sent, ben_sent]), torch.tensor([-4.0, 1.0, 0.0]))


def broken_mask_from_values(values, _masks):
    """The same question: who sent is read off ``value > 0``; where nobody sent, 0 / 0 is NaN."""
    return torch.stack(values).sum(0) / torch.stack([x > 0 for x in values]).sum(0)


GALLERY = [  # law, who breaks it, and ours
    (law_signs_survive, broken_top_k_of_magnitudes, arriving(TopK(0.5))),
    (law_something_arrives, broken_rounding_down_to_nothing, arriving(QSGD(15))),
    (law_eight_bits_cost_eight_bits, broken_four_bits_lie_idle, weighed(Quantize(8))),
    (law_one_bit_costs_one_bit, broken_a_bit_in_a_byte, weighed(Sign())),
    (law_few_levels_few_bytes, broken_levels_as_int32, weighed(QSGD(16))),
    (law_clients_do_not_meet, broken_one_residual_for_all, over_a_channel),
    (law_the_mean_of_those_who_sent, broken_mask_from_values, our_masked_mean),
]


@pytest.mark.parametrize(("law", "broken", "ours"), GALLERY, ids=lambda each: each.__name__)
def test_the_broken_one_fails_and_ours_passes(law, broken, ours):
    with pytest.raises(AssertionError):
        law(broken)
    law(ours)
