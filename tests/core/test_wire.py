import re
import sys
import time
import tracemalloc

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from fltoolkit.channel import Channel
from fltoolkit.codecs import Entropy, ErrorFeedback, Only, Pipeline, Quantize, TopK
from fltoolkit.wire import (
    DTYPES,
    MAX_ENTRIES,
    Reader,
    WireError,
    at_most,
    bound_to,
    check_num_values,
    most_values,
    pack,
    padding_nbytes,
    read_layout,
    unpack,
    varint,
    write_layout,
)
from fltoolkit_research.codecs import Difference


def same(a, b):
    assert list(a) == list(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert a[name].shape == b[name].shape
        # compare bits: NaN must survive too
        raw = [t[name].contiguous().reshape(-1).view(torch.uint8) for t in (a, b)]
        assert torch.equal(*raw)
    return True


def signed(header: bytes, *payloads: bytes) -> bytes:
    """A frame with a correct checksum, whatever nonsense it holds: what a hostile sender makes."""
    start = bytes([0xF1, len(header)]) + header
    digest = xxhash.xxh3_64_intdigest(start)
    for payload in payloads:
        digest = xxhash.xxh3_64_intdigest(payload, seed=digest)
    return start + b"".join(payloads) + digest.to_bytes(8, "little")[:4]


# --------------------------------------------------------------------------- the format itself
GOLDEN = [
    ({}, "f1 00 11 5c cd 64"),
    ({"h": torch.tensor([[1.0, 2.0]])}, "f1 05 01 68 20 01 02 0000803f 00000040 a0 e1 57 d8"),
    ({"": torch.tensor(7, dtype=torch.uint8)}, "f1 02 00 04 07 65 7c e5 cd"),
    (
        {"a": torch.tensor([True, False]), "b": torch.tensor([-1.5], dtype=torch.bfloat16)},
        "f1 08 01 61 19 02 01 62 12 01 01 00 c0bf 6b 77 90 42",
    ),
    (
        {"y": torch.tensor([3, -1]), "z": torch.zeros(0, 300, dtype=torch.float16)},
        "f1 0a 01 79 18 02 01 7a 21 00 ac02 0300000000000000 ffffffffffffffff 26 e0 b0 05",
    ),
]


@pytest.mark.parametrize(("tree", "hexadecimal"), GOLDEN)
def test_the_format_does_not_change(tree, hexadecimal):
    message = bytes.fromhex(hexadecimal)
    assert pack(tree).hex(" ") == message.hex(" ")
    assert same(unpack(message), tree)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_its_extremes(dtype):
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        values = [0.0, -0.0, info.max, info.min, info.tiny, float("nan"), float("inf")]
    elif dtype == torch.bool:
        values = [True, False]
    else:
        values = [torch.iinfo(dtype).max, torch.iinfo(dtype).min, 0]
    assert same(unpack(pack(tree := {"t": torch.tensor(values, dtype=dtype)})), tree)


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda m: np.repeat(m, 2)[::2].data]
)
def test_any_buffer_can_be_read(kind):
    message = np.frombuffer(pack({"h": torch.ones(3)}), np.uint8)
    assert same(unpack(kind(message)), {"h": torch.ones(3)})


SENDABLE = {
    "imaginary parts, negated when they are read": torch.tensor([1 + 2j, -3j]).conj().imag,
    "negated bfloat16": torch.tensor([1.0, -2.0]).bfloat16()._neg_view(),
    "negated integers": torch.arange(3)._neg_view(),
    "a parameter": torch.nn.Parameter(torch.ones(2)),
    "strided": torch.arange(24.0).reshape(4, 6)[::2, 1::2],
    "transposed": torch.arange(24.0).reshape(4, 6).t(),
    "a class of one's own": torch.arange(4.0).as_subclass(type("Own", (torch.Tensor,), {})),
    "overlapping": torch.arange(5.0).as_strided((3, 3), (1, 1)),
    "expanded": torch.ones(1).expand(4),
    "empty, of freed memory": torch.ones(3)[:0],
}


@pytest.mark.parametrize("tensor", SENDABLE.values(), ids=SENDABLE)
def test_a_tensor_of_an_unusual_kind_travels_exactly(tensor):
    plain = tensor.detach().as_subclass(torch.Tensor).clone().resolve_neg()
    received = unpack(pack({"x": tensor}))
    assert same(received, {"x": plain})
    assert not received["x"].requires_grad
    codec = Pipeline(TopK(0.5), Quantize(4), Entropy())
    assert codec.encode({"x": tensor}) == codec.encode({"x": plain})


def freed():
    """As a sharded model leaves its parameters: a shape, and no memory behind it."""
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


REFUSED = {
    "torch.complex64": torch.ones(2, dtype=torch.complex64),
    "torch.complex128": torch.ones(2, dtype=torch.complex128).conj(),
    "torch.float8_e4m3fn": torch.ones(2).to(torch.float8_e4m3fn),
    "torch.quint8": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
    "torch.sparse_coo": torch.eye(3).to_sparse(),
    "torch.sparse_csr": torch.eye(3).to_sparse_csr(),
    "torch.strided": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "on meta": torch.ones(2, device="meta"),
    "torch.float32, torch.strided, on meta": torch.ones(0, device="meta"),
    "torch.bfloat16, torch.strided, on meta": torch.ones(2, device="meta").bfloat16(),
    "on cpu: a message holds dense tensors with values": freed(),  # reading it ends the process
    "UninitializedParameter": torch.nn.UninitializedParameter(),
}


CODECS = [
    Pipeline(),
    Pipeline(TopK(0.5)),
    ErrorFeedback(Pipeline(TopK(0.5))),
    Difference(Pipeline(Quantize(8))),
]


@pytest.mark.parametrize("codec", [None, *CODECS, Only(Pipeline(), 2)], ids=repr)
@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"n": 1.0}, "'n' is float"),
        ({"w": np.zeros(3)}, "'w' is ndarray"),
        ({1: torch.zeros(2)}, "entry 1: names are strings"),
        (torch.zeros(2), r"give a dict of tensors .*, not a Tensor"),
        (torch.nn.Linear(2, 2), r"give a dict of tensors .*, not a Linear"),
        ({"d": torch.zeros([1] * 16, dtype=torch.int32)}, "16 dimensions"),
    ],
)
def test_what_is_no_tree_is_named(codec, tree, words):
    with pytest.raises(TypeError, match=words):
        codec.encode(tree) if codec else pack(tree)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("words", REFUSED)
def test_every_other_kind_of_tensor_gets_one_error_that_names_it(words, codec):
    """Not torch's own words, which name no entry: from the frame, and from a codec's channel."""
    tree = {"good": torch.ones(2), "x": REFUSED[words]}
    expected = rf"entry 'x' is .*{re.escape(words)}.* float32"
    with pytest.raises(TypeError, match=expected):
        pack(tree)
    with pytest.raises(TypeError, match=f"a -> b, update: {expected}"):
        Channel({"update": codec}).send("a", "b", "update", tree)


# ------------------------------------------------------------------------------------- damage
GOOD = pack({"h": torch.arange(6.0).reshape(2, 3), "y": torch.tensor([1, 2])})


def test_every_truncation_is_an_error():
    for length in range(len(GOOD)):
        with pytest.raises(WireError, match=r"offset \d+: "):
            unpack(GOOD[:length])


def test_every_flipped_bit_is_an_error():
    for bit in range(8 * len(GOOD)):
        bad = bytearray(GOOD)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError, match=r"offset \d+: .*(expected|claims)"):
            unpack(bad)


@pytest.mark.later
@settings(max_examples=500)
@given(st.binary(max_size=60), st.binary(max_size=40))
def test_hostile_headers_end_in_an_error_or_a_tree(header, payload):
    """Even with a right checksum: no crash, no other exception, no size beyond the message's."""
    try:
        tree = unpack(signed(header, payload) if payload else signed(header))
    except WireError:
        return
    assert sum(t.numel() * t.element_size() for t in tree.values()) == len(payload)


def test_hostile_sizes_allocate_nothing():
    huge = b"\xff" * 7 + b"\x7f"  # 2**56 - 1
    for header in (
        b"\x01h\x10" + huge,  # one dimension of 2**56 - 1 values
        b"\x01h\x20" + huge + huge,
        b"\x01h\x30" + huge + huge + b"\x00",  # no bytes, but no possible shape either
        huge + b"h",  # a name of 2**56 - 1 bytes
    ):
        tracemalloc.start()
        with pytest.raises(WireError, match="expected"):
            unpack(signed(header))
        assert tracemalloc.get_traced_memory()[1] < 100_000
        tracemalloc.stop()
    with pytest.raises(WireError, match="header's length to be at most"):
        unpack(b"\xf1" + huge + b"1234")


def test_repeated_names_and_false_bools_are_errors():
    entry = b"\x01h\x14\x00"
    with pytest.raises(WireError, match="each name once"):
        unpack(signed(entry + entry))
    with pytest.raises(WireError, match="expected bytes 0 or 1"):
        unpack(signed(b"\x01b\x19\x01", b"\x02"))


def test_other_versions_are_told_apart():
    with pytest.raises(WireError, match=r"offset 0: expected 0xf1 .* found 0xf2"):
        unpack(b"\xf2" + GOOD[1:])


# ----------------------------------------------------------------- bound to what both ends hold
def test_a_frame_is_bound_to_what_both_ends_hold():
    """To names, dtypes, shapes and values, and in no byte longer."""
    tree, held = {"h": torch.ones(2)}, {"w": torch.tensor([1.0, 2.0])}
    with bound_to(held, "it is another's"):
        message = pack(tree)
        assert same(unpack(message), tree)
        with bound_to({}, "it is late"):
            nested = pack(tree)
    assert message[:-4] == nested[:-4] == pack(tree)[:-4]
    assert len({message, nested, pack(tree)}) == 3
    others = [{}, {"v": held["w"]}, {"w": held["w"].double()}, {"w": held["w"][None]}]
    for other in (*others, {"w": torch.tensor([1.0, 2.5])}):
        with bound_to(other, "it is late"), pytest.raises(WireError, match=r"its way, or it is la"):
            unpack(message)
    with pytest.raises(WireError, match=r"damaged on its way$"):
        unpack(message)


# ----------------------------------------------------------- for formats inside of a message
@given(st.integers(0, 2**63 - 1))
def test_varints_come_back(number):
    written = varint(number)
    reader = Reader(memoryview(written))
    assert reader.number("a number") == number
    assert reader.offset == len(written) == max(1, -(-number.bit_length() // 7))


def test_a_layout_is_a_header():
    entries = (("h", torch.float32, (64, 640)), ("", torch.bool, ()), ("αβ", torch.int64, (0, 3)))
    layout = write_layout(entries)
    assert layout.hex(" ") == "01 68 20 40 80 05 00 09 04 ce b1 ce b2 28 00 03"
    read, nbytes = read_layout(layout)
    assert read == tuple(
        (*entry, size) for entry, size in zip(entries, (163_840, 1, 0), strict=True)
    )
    assert nbytes == 163_841
    message = pack({name: torch.zeros(shape, dtype=dtype) for name, dtype, shape in entries})
    assert message[1] == len(layout)
    assert message[2 : 2 + len(layout)] == layout
    assert (write_layout(()), read_layout(b"")) == (b"", ((), 0))


# -------------------------------------------------------------- how large a message may become
@pytest.mark.parametrize("what", ["abc", None, 7, [1, 2], torch.zeros(3)])
def test_what_is_no_bytes_is_a_type_error(what):
    with pytest.raises(TypeError, match=f"a message is bytes, .*not a {type(what).__name__}"):
        unpack(what)


@pytest.mark.later
def test_the_number_of_entries_is_limited():
    tree = {str(i): torch.zeros(0) for i in range(MAX_ENTRIES)}
    assert len(unpack(pack(tree))) == MAX_ENTRIES
    with pytest.raises(ValueError, match=f"{MAX_ENTRIES + 1} entries.* at most {MAX_ENTRIES}"):
        pack({**tree, "one more": torch.zeros(0)})
    layout = write_layout(tuple((str(i), torch.float32, (0,)) for i in range(100_000)))
    started = time.process_time()
    with pytest.raises(WireError, match=f"expected at most {MAX_ENTRIES} entries"):
        read_layout(layout)
    assert time.process_time() - started < 1.5


def test_at_most_holds_inside_and_the_smaller_one_wins():
    with at_most(10), at_most(20):
        check_num_values(10)
        with pytest.raises(WireError, match="becomes 11 values, at most 10 may be"):
            check_num_values(11)
    check_num_values(sys.maxsize)
    for wrong in (-1, 2.5, None):
        with pytest.raises(ValueError, match="a whole number of values"), at_most(wrong):
            pass


@given(st.integers(0, 2**40), st.integers(0, 2**30))
def test_padding_is_as_long_as_it_must_be(num_values, nbytes):
    more = padding_nbytes(num_values, nbytes)
    assert most_values(nbytes + more) >= num_values
    assert more == 0 or most_values(nbytes + more - 1) < num_values
