"""Each law of `Conformance` refuses a codec that breaks it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fltoolkit.codecs import Pipeline
from fltoolkit.codecs.base import Codec, Identity
from fltoolkit.codecs.stage import Stage
from fltoolkit.testing import TREES, Conformance
from fltoolkit.wire import WireError, pack, unpack


def same(tree: Any) -> Any:
    return tree


@dataclass(eq=False)
class Made(Codec):
    """Full precision, and what is done to a tree before it is packed, and after it was read."""

    there: Callable[[Any], Any] = same
    back: Callable[[Any], Any] = same
    count: int = 0

    def encode(self, tree):
        return pack(self.there(tree))

    def decode(self, message):
        return self.back(unpack(message))


def each(change, of=torch.is_floating_point):
    return lambda tree: {name: change(x) if of(x) else x for name, x in tree.items()}


class NoBytes(Made):
    def encode(self, tree):
        return bytearray(pack(tree))


class NoChecksum(Made):
    def encode(self, tree):
        return b"".join(bytes(x.contiguous().numpy()) for x in tree.values())

    def decode(self, message):
        return {"w": torch.zeros(len(message))}


class OneMemory(Made):
    read: ClassVar[dict[bytes, Any]] = {}

    def decode(self, message):
        return self.read.setdefault(message, unpack(message))


class OneCount(Made):
    """Of all links."""

    sent: ClassVar[list[int]] = []

    def encode(self, tree):
        self.sent.append(1)
        return pack({name: x + len(self.sent) for name, x in tree.items()})


class Counts(Made):
    """It does not say what it remembers."""

    def encode(self, tree):
        self.count += 1
        return pack({name: x + self.count for name, x in tree.items()})

    def decode(self, message):
        self.count += 1
        return {name: x + self.count for name, x in unpack(message).items()}


class Numbered(Made):
    """It refuses what is not due, and then also what is."""

    sent: int = 0

    def encode(self, tree):
        self.sent += 1
        return pack({**tree, "number": torch.tensor(self.sent)})

    def decode(self, message):
        tree, self.count = unpack(message), self.count + 1
        if int(tree.pop("number")) != self.count:
            raise WireError("not due")
        return tree


class Told(Made):
    """What it says of a message is not what it sends, or not what arrives."""

    def encode(self, tree):
        return pack({**tree, "more": torch.ones(1)})

    def decode(self, message):
        return {name: x for name, x in unpack(message).items() if name != "more"}

    def encode_and_decode(self, tree):
        return self.back((message := self.encode(tree), self.decode(message)))


@dataclass
class Twice(Stage):
    """It makes more values than came, and does not ask whether they may be."""

    def apply(self, parts):
        return {name: x.reshape(-1)[::2] for name, x in parts.items()}

    def undo(self, parts):
        return {name: x.repeat_interleave(2) for name, x in parts.items()}


@dataclass
class Hidden(Identity):
    """Its repr leaves out a setting, and what makes it unequal when it is used."""

    setting: int = field(default=0, repr=False)
    used: int = field(default=0, repr=False)

    def encode(self, tree):
        self.used += 1
        return pack(tree)


@dataclass
class Shows(Hidden):
    """Use changes its repr, and not what it is equal to."""

    used: int = field(default=0, compare=False)


BROKEN: dict[str, list[Codec]] = {
    "test_names_shapes_and_dtypes_come_back": [
        NoBytes(),
        Made(back=lambda tree: {**tree, "more": torch.zeros(1)}),
        Made(each(torch.Tensor.zero_)),  # in the sender's own tree
        Made(back=each(torch.Tensor.float)),
        Made(back=each(lambda x: x + 1, of=lambda x: x.dtype == torch.int64)),
        Made(back=each(lambda x: x.where(x.abs() < 3, math.inf))),
        Made(back=each(lambda x: x + 1e-3)),  # nor is a zero zero
        Made(back=each(torch.neg)),
    ],
    "test_a_million_values": [
        Made(each(torch.Tensor.double), each(torch.Tensor.float)),
        Made(back=each(torch.Tensor.flatten)),
    ],
    "test_nan_and_infinity_never_pass_silently": [
        Made(each(torch.nan_to_num)),
        Made(each(lambda x: x if x.isfinite().all() else int("no name"))),
    ],
    "test_same_seed_same_bytes": [
        Made(lambda tree: (torch.rand(1), tree)[1]),
        Made(lambda tree: (np.random.rand(), tree)[1]),  # noqa: NPY002
    ],
    "test_what_is_decoded_shares_no_memory": [
        OneMemory(),
        Made(back=each(lambda x: x + torch.rand(1))),
    ],
    "test_a_sender_knows_what_arrives": [
        Told(back=lambda both: (pack(both[1]), both[1])),
        Told(back=lambda both: (both[0], dict(reversed(both[1].items())))),
        Told(back=lambda both: (both[0], each(torch.Tensor.double)(both[1]))),
        Told(back=lambda both: (both[0], each(lambda x: x + 1)(both[1]))),
    ],
    "test_messages_in_another_order_are_read_alike_or_refused": [Counts(), Numbered()],
    "test_links_share_nothing": [OneCount()],
    "test_state_can_be_saved": [Counts()],
    "test_damage_on_the_way_is_noticed": [NoChecksum()],
    "test_hostile_content_ends_in_a_wire_error_or_a_tree": [
        Made(back=lambda tree: tree and {"w": tree["w"]}),  # what is missing is a KeyError
    ],
    "test_more_values_than_a_receiver_allows_are_refused": [Pipeline(Twice())],
    "test_repr_evaluates_back": [Hidden(setting=1), Hidden(), Shows()],
}


@pytest.mark.parametrize(("law", "codec"), [(law, c) for law, all_ in BROKEN.items() for c in all_])
def test_a_broken_codec_is_refused(law, codec, monkeypatch):
    mine = {name: {n: x.clone() for n, x in tree.items()} for name, tree in TREES.items()}
    monkeypatch.setattr(Conformance, "trees", mine)
    with pytest.raises((AssertionError, WireError, KeyError, pytest.fail.Exception)):
        getattr(Conformance(), law)(codec)
