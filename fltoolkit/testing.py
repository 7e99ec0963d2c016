"""What every codec must do, as a class of tests to inherit from. Needs pytest.

    @pytest.mark.parametrize("codec", [Pipeline(MyStage())], ids=repr)
    class TestMyCodec(Conformance):
        ...

The package's own codecs go through the same tests. docs/codecs.md shows a whole example.
"""

import copy
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, walk
from fltoolkit.codecs.stage import Parts, Stage
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, at_most, bound_to, pack, unpack

__all__ = ["Conformance"]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Values from N(0, 1): for one seed always the same."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TREES: dict[str, Tree] = {
    "empty tree": {},
    "empty tensor": {"w": torch.zeros(0), "v": torch.zeros(3, 0, dtype=torch.float16)},
    "zero-dimensional": {"w": torch.tensor(1.5)},
    "one value": {"w": torch.tensor([-2.0])},
    "matrix": {"w": normal(33, 7)},
    "several shapes": {
        "a": normal(2, 20),
        "b": normal(6, 10),
        "c": normal(7),
        "d": normal(1, 1, 3),
    },
    "strided view": {"w": normal(8, 6)[::2, 1::2], "t": normal(4, 5).t()},
    "negated view": {"w": torch.complex(normal(6), normal(6, seed=1)).conj().imag},
    "half precision": {"h": normal(9).half(), "b": normal(9).bfloat16(), "d": normal(9).double()},
    "integers": {
        "n": torch.tensor([3, -1, 2**40]),
        "m": torch.tensor([True, False]),
        "w": normal(5),
    },
    "constant": {"w": torch.full((10, 3), 0.1), "v": torch.full((4,), -1e6)},
    "all zero": {"w": torch.zeros(12, 5), "v": torch.zeros(3)},
    "mostly zero": {"w": torch.eye(40)[:, :30] * 0.5},
    "denormal": {"w": torch.tensor([1e-40, -3e-42, 0.0, 2e-39])},
    "huge range": {"w": torch.tensor([3.4e38, -3.4e38, 1e-30, 1.0, 0.0])},
    "far from zero": {"w": 100 + torch.rand(50, generator=torch.Generator().manual_seed(1))},
    "strange names": {"": normal(3), "layer.0/α β": normal(2, 2), "*": normal(4)},
}


class Conformance:
    """Tests of one ``codec``, which pytest parametrizes; see the module's docstring.

    Attributes:
        trees: what is sent and must come back, by name. A codec that cannot keep a promise for
            some of them (noise does not leave a zero zero) is tested with the others.

    >>> from fltoolkit.codecs import Pipeline, Quantize
    >>> Conformance().test_same_seed_same_bytes(Pipeline(Quantize(8, stochastic=True)))  # it passes
    """

    trees: ClassVar[dict[str, Tree]] = TREES

    def test_names_shapes_and_dtypes_come_back(self, codec: Codec) -> None:
        """Integers and bools are exact, zeros stay zeros, and all values are finite.

        How near they are is for a test of your own: here they must not point the other way.
        """
        for case, tree in self.trees.items():
            print(f"the tree is {case!r}")  # pytest shows it if the test fails
            before = {name: tensor.clone() for name, tensor in tree.items()}
            sender, receiver = copy.deepcopy(codec), copy.deepcopy(codec)
            message = sender.encode(tree)
            assert isinstance(message, bytes)
            out = receiver.decode(message)
            assert out.keys() == tree.keys()
            for name, tensor in tree.items():
                assert torch.equal(tensor, before[name]), "encode changed its input"
                assert (out[name].shape, out[name].dtype) == (tensor.shape, tensor.dtype), name
                if not tensor.is_floating_point():
                    assert torch.equal(out[name], tensor), name
                assert bool(out[name].isfinite().all()), name
            if case == "matrix":
                along = float((out["w"] * tree["w"]).sum())
                assert along >= 0, f"what arrives points away from what was sent: {along:.3g}"
            if case == "all zero":
                for values in out.values():
                    assert not values.any(), (
                        f"an all-zero tensor arrived as {values}: a codec must be able to send zero"
                    )

    def test_a_million_values(self, codec: Codec) -> None:
        """Large tensors work, and no message is longer than the values and a small header."""
        message = copy.deepcopy(codec).encode({"w": normal(1000, 1000), "b": normal(1000)})
        assert len(message) < 1.01 * 4 * 1_001_000
        assert copy.deepcopy(codec).decode(message)["w"].shape == (1000, 1000)

    def test_nan_and_infinity_never_pass_silently(self, codec: Codec) -> None:
        """NaN and infinity are carried exactly, or an error names the entry."""
        for value in (float("nan"), float("inf"), -float("inf")):
            print(value)
            tree = {"good": normal(5), "bad": torch.tensor([1.0, value, 2.0])}
            complaint, out = "'bad'", tree["bad"]
            try:
                out = copy.deepcopy(codec).decode(copy.deepcopy(codec).encode(tree))["bad"]
            except ValueError as error:
                complaint = str(error)
            assert "'bad'" in complaint
            assert torch.equal(out.view(torch.int32), tree["bad"].view(torch.int32))

    def test_same_seed_same_bytes(self, codec: Codec) -> None:
        """Two copies that get the same trees make the same bytes; no global generator is used."""
        numpys = repr(np.random.get_state())  # noqa: NPY002
        one, two = copy.deepcopy(codec), copy.deepcopy(codec)
        state = torch.get_rng_state()
        for seed in range(3):
            tree = TREES["several shapes"] | {"w": normal(33, 7, seed=seed)}
            first = one.encode(tree)
            torch.rand(1)  # whatever happens elsewhere
            assert two.encode(tree) == first, (
                "two copies made different bytes: let the stage extend RandomStage, and draw by "
                "np.random.default_rng(self.draw_key())"
            )
        torch.set_rng_state(state)
        copy.deepcopy(codec).encode(TREES["matrix"])
        assert torch.equal(torch.get_rng_state(), state)
        assert repr(np.random.get_state()) == numpys  # noqa: NPY002

    def test_what_is_decoded_shares_no_memory(self, codec: Codec) -> None:
        """Two receivers decode the same; what one does with its tree changes nothing."""
        sender, receivers = copy.deepcopy(codec), [copy.deepcopy(codec) for _ in range(2)]
        for seed in range(2):
            message = sender.encode({"w": normal(33, 7, seed=seed)})
            first, again = (receiver.decode(message)["w"] for receiver in receivers)
            assert torch.equal(first, again)
            first.fill_(7)
            assert not torch.equal(first, again), "what is decoded shares memory"

    def test_a_sender_knows_what_arrives(self, codec: Codec) -> None:
        """``encode_and_decode`` equals ``encode`` and ``decode``."""
        for case, tree in self.trees.items():
            print(f"the tree is {case!r}")
            one, two, receiver = (copy.deepcopy(codec) for _ in range(3))
            for _ in range(1 if case == "huge range" else 2):  # a codec may add trees up
                message, arrives = one.encode_and_decode(tree)
                assert message == two.encode(tree)
                decoded = receiver.decode(message)
                assert list(arrives) == list(decoded)
                for name, tensor in decoded.items():
                    assert arrives[name].dtype == tensor.dtype, name
                    assert torch.equal(arrives[name], tensor), name

    def test_messages_in_another_order_are_read_alike_or_refused(self, codec: Codec) -> None:
        """A message that comes twice or too early decodes as ever, or it is a WireError.

        Afterwards the message that is due is read. A codec whose ``decode`` needs what came before
        encodes and decodes in `fltoolkit.wire.bound_to`, at first in ``bound_to({}, ...)``.
        """
        sender, receiver = copy.deepcopy(codec), copy.deepcopy(codec)
        messages = [sender.encode({"w": normal(33, 7, seed=seed)}) for seed in range(4)]
        expected = [receiver.decode(message)["w"] for message in messages]
        receiver = copy.deepcopy(codec)
        for due, message in enumerate(messages):
            for number, other in enumerate(messages):
                if number != due:
                    with suppress(WireError):
                        assert torch.equal(receiver.decode(other)["w"], expected[number])
            assert torch.equal(receiver.decode(message)["w"], expected[due])

    def test_links_share_nothing(self, codec: Codec) -> None:
        """What one link sends does not depend on what other links send, in any order."""
        tree, other = TREES["matrix"], {"w": -3 * normal(33, 7, seed=5)}

        def run(order: list[str]) -> dict[str, list[Any]]:
            channel = Channel(codecs={"update": codec})
            got: dict[str, list[Any]] = {"ann": [], "ben": []}
            for who in order:
                sent = tree if who == "ann" else other
                got[who].append(channel.send(who, "server", "update", sent)["w"].tolist())
            return got

        assert run(["ann", "ann", "ben", "ben"]) == run(["ben", "ann", "ben", "ann"])

    def test_values_that_are_left_out_are_announced(self, codec: Codec) -> None:
        """A stage that sends few values says ``leaves_out = True``: then no model is sent with it.

        The magnitudes of 16 values are between 1 and 2, so rounding to few levels gives few zeros.
        """
        stages = [part for part in walk(codec) if isinstance(part, Stage)]
        if any(stage.leaves_out for stage in stages):
            return
        size = 1 + torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
        tree = {"w": size * normal(4, 4).sign()}
        out = copy.deepcopy(codec).decode(copy.deepcopy(codec).encode(tree))
        zeros = float((out["w"] == 0).float().mean())
        names = ", ".join(type(stage).__name__ for stage in stages) or type(codec).__name__
        assert zeros <= 0.5, (
            f"{zeros:.0%} of the values arrive as 0, though none was between -1 and 1: set "
            f"leaves_out = True in the stage that leaves them out (of {names}). Then the package "
            "refuses to send whole models with it, which would lose most of their weights"
        )

    def test_state_can_be_saved(self, codec: Codec) -> None:
        """After saving and loading, the next message is the same as without."""
        sender = copy.deepcopy(codec)
        sender.start_link(17)
        sender.encode(TREES["matrix"])
        saved = copy.deepcopy(sender.state_dict())
        expected = sender.encode(TREES["matrix"])
        resumed = copy.deepcopy(codec)
        resumed.start_link(17)
        resumed.load_state_dict(saved)
        assert resumed.encode(TREES["matrix"]) == expected

    def test_damage_on_the_way_is_noticed(self, codec: Codec) -> None:
        """Any changed bit, missing or additional byte is a WireError; the codec still works."""
        for case in ("matrix", "several shapes", "mostly zero"):
            print(case)
            sender, receiver = copy.deepcopy(codec), copy.deepcopy(codec)
            message = sender.encode(TREES[case])
            for bit in range(0, 8 * len(message), max(1, 8 * len(message) // 101)):
                bad = bytearray(message)
                bad[bit // 8] ^= 1 << bit % 8
                with pytest.raises(WireError):
                    receiver.decode(bytes(bad))
            for bad_message in (b"", message[:-1], message[: len(message) // 2], message + b"\0"):
                with pytest.raises(WireError):
                    receiver.decode(bad_message)
            for good in (message, sender.encode(TREES[case])):
                receiver.decode(good)

    def test_hostile_content_ends_in_a_wire_error_or_a_tree(self, codec: Codec) -> None:
        """Entries are changed, cut, left out or repeated, and the checksum is right."""
        in_order = any(part.in_order for part in walk(codec))

        def first() -> AbstractContextManager[None]:  # bound as by a codec that holds nothing yet
            return bound_to({}, "it is not the first") if in_order else nullcontext()

        for case in ("matrix", "several shapes", "mostly zero"):
            print(case)
            used = copy.deepcopy(codec)
            message = used.encode(TREES[case])
            with first():
                entries = unpack(message)
            generator = torch.Generator().manual_seed(0)
            for name, tensor in entries.items():
                raw = tensor.contiguous().reshape(-1).view(torch.uint8)
                variants = [
                    {n: t for n, t in entries.items() if n != name},
                    {**entries, name: torch.zeros(0, dtype=tensor.dtype)},
                    {**entries, name: torch.zeros(3, 2, dtype=torch.int64)},
                    {**entries, name: tensor.reshape(-1)[: tensor.numel() // 2]},
                ]
                for _ in range(25 if len(raw) else 0):
                    changed = raw.clone()
                    place = int(torch.randint(len(raw), (1,), generator=generator))
                    changed[place] = int(torch.randint(256, (1,), generator=generator))
                    if tensor.dtype != torch.bool:
                        variants.append(
                            {**entries, name: changed.view(tensor.dtype).view(tensor.shape)}
                        )
                for variant in variants:
                    with first():
                        forged = pack(variant)
                    with suppress(WireError):
                        (copy.deepcopy(codec) if in_order else used).decode(forged)

    def test_more_values_than_a_receiver_allows_are_refused(self, codec: Codec) -> None:
        """A stage that makes more values than came asks `fltoolkit.wire.check_num_values` first.

        Else a short forged message could fill the receiver's memory. docs/extend.md has a pattern.
        """
        stages = [copy.deepcopy(stage) for stage in walk(codec) if isinstance(stage, Stage)]
        parts: Parts = {"w": normal(40, 50)}
        with at_most(2000):  # exactly so many values as were sent are let in
            copy.deepcopy(codec).decode(copy.deepcopy(codec).encode({"w": normal(40, 50)}))
        for stage in stages:
            parts = stage.apply(parts)
        tensors = (p if isinstance(p, torch.Tensor) else p.values for p in parts.values())
        if sum(tensor.numel() for tensor in tensors) >= 2000:
            return  # no stage makes more
        with at_most(1999), pytest.raises(WireError, match="at most 1999 may be"):  # noqa: PT012
            for stage in reversed(stages):
                parts = stage.undo(parts)

    def test_repr_evaluates_back(self, codec: Codec) -> None:
        """The repr is a call that makes an equal codec, also after the codec was used."""
        classes = {type(part).__name__: type(part) for part in walk(codec)}
        assert " object at 0x" not in repr(codec), f"{codec!r}: write @dataclass above the class"
        again = eval(repr(codec), classes)
        again.encode(TREES["matrix"])
        assert again == codec
        assert repr(again) == repr(codec)
