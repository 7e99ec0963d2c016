"""Messages of the playground are Python's, byte for byte and both ways, in Node and in Chromium."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from page_scripts import Call, in_chromium, in_node
from stored_runs import messages_tree, undumped
from xxhash import xxh3_64_intdigest

from fltoolkit.codecs import ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import side
from fltoolkit.testing import TREES
from fltoolkit.trees import Tree
from fltoolkit.wire import DTYPES, pack

pytestmark = pytest.mark.browser
STORED = Path(__file__).parents[1] / "stored" / "messages.json"
STAGES = [  # (bits, kept) of the codecs in tests/stored that the page has, too
    (32, 1.0),
    *((bits, 1.0) for bits in (1, 3, 8, 16)),
    (32, 0.1),
]
FLOATS = {
    name: tree
    for name, tree in TREES.items()
    if tree
    and all(t.dtype == torch.float32 and t.numel() for t in tree.values())
    and name not in ("negated view", "strange names")  # "*" is the name of all values together
}


@pytest.fixture(scope="module", params=["node", "chromium"])
def call(request: Any, tmp_path_factory: Any) -> Iterator[Call]:
    folder = tmp_path_factory.mktemp(request.param)
    with (in_node if request.param == "node" else in_chromium)(folder) as made:
        yield made


def codec_of(bits: int, kept: float) -> Any:
    stages = [*([TopK(kept)] if kept < 1 else []), *([Quantize(bits)] if bits < 32 else [])]
    return Pipeline(*stages) if stages else Identity()


def entered(tree: Tree, lossless: bool) -> Tree:
    """What a first stage gets: half precision as float32, and its dtype beside it."""
    out: Tree = {}
    for name, tensor in tree.items():
        out[name] = tensor if lossless or tensor.dtype != torch.float16 else tensor.float()
        if out[name] is not tensor:
            out[side(name, "dtype")] = torch.tensor(DTYPES.index(tensor.dtype)).byte()
    return out


def left(found: list[Any]) -> list[Any]:
    """Undo `entered`, as the last stage of a pipeline does."""
    out = []
    for name, dtype, shape, raw in found:
        if [side(name, "dtype"), DTYPES.index(torch.uint8), [], "01"] in found:
            half = torch.frombuffer(bytearray.fromhex(raw), dtype=torch.float32).half()
            out += sent({name: half.reshape(shape)})
        elif side("", "dtype") not in name:
            out.append([name, dtype, shape, raw])
    return out


def sent(tree: Tree) -> list[Any]:
    """A tree as `explore.treeFrom` reads it."""
    return [
        [name, DTYPES.index(t.dtype), list(t.shape), t.contiguous().numpy().tobytes().hex()]
        for name, t in tree.items()
    ]


EXCHANGE = """(explore, rows) => rows.map(({ bits, kept, tree, message }) => {
  const codec = explore.wire.codec({ bits, kept });
  const made = codec.encode(explore.treeFrom(tree));
  return [explore.hex(made), explore.entriesOf(codec.decode(explore.bytesFrom(message)))];
})"""


def test_stored_messages_of_version_0_1_0(call: Call) -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    rows, expected = [], []
    for bits, kept in STAGES:
        for number, row in enumerate(stored[repr(codec_of(bits, kept))]):
            lossless = (bits, kept) == (32, 1)
            tree, message = sent(entered(messages_tree(number), lossless)), row["message"]
            rows.append({"bits": bits, "kept": kept, "tree": tree, "message": message})
            decoded = sent(undumped(row["decoded"]))
            today = codec_of(bits, kept).encode(messages_tree(number)).hex()
            assert (today == message) == (bits != 3)  # 3 bits: shorter since 0.2.0 (README there)
            expected.append([today, decoded])
    assert len(rows) == 12
    assert [[made, left(tree)] for made, tree in call(EXCHANGE, rows)] == expected


def test_messages_of_many_shapes(call: Call) -> None:
    generator = torch.Generator().manual_seed(0)
    trees = {**FLOATS, "model": {"w": torch.randn(40, 65, generator=generator).relu()}}
    rows, expected = [], []
    for bits in (1, 2, 3, 4, 5, 6, 7, 8, 12, 32):
        for kept in (0.01, 0.1, 0.4, 1.0):
            for tree in trees.values():
                codec = codec_of(bits, kept)
                message = codec.encode(tree)
                rows.append(
                    {"bits": bits, "kept": kept, "tree": sent(tree), "message": message.hex()}
                )
                expected.append([message.hex(), sent(codec.decode(message))])
    for found, right, row in zip(call(EXCHANGE, rows), expected, rows, strict=True):
        assert found == right, (row["bits"], row["kept"], row["tree"][0][:3])


def test_what_is_owed_goes_along(call: Call) -> None:
    generator = torch.Generator().manual_seed(1)
    trees = [{"w": torch.randn(30, 7, generator=generator), "b": torch.ones(5)} for _ in range(4)]
    codec = ErrorFeedback(Pipeline(TopK(0.1), Quantize(4)))
    messages = [codec.encode(tree).hex() for tree in trees]
    found, owed = call(
        """(explore, trees) => {
          const codec = explore.wire.withFeedback(explore.wire.codec({ bits: 4, kept: 0.1 }));
          const messages = trees.map((tree) => explore.hex(codec.encode(explore.treeFrom(tree))));
          return [messages, codec.owed().map((values) => Array.from(values))];
        }""",
        list(map(sent, trees)),
    )
    assert found == messages
    expected = [t.flatten().tolist() for t in codec.residual.values()]
    assert owed == expected
    assert any(map(any, expected))


def test_checksums_of_all_lengths(call: Call) -> None:
    sizes = [*range(300), 511, 512, 513, 1023, 1024, 1025, 1087, 1088, 1089, 2048, 2049, 82_001]
    seeds = (0, 5, 2**63 + 12345, 2**64 - 1)
    found = call(
        """(explore, [sizes, seeds]) => sizes.map((n) => {
          const bytes = Uint8Array.from({ length: n }, (_, i) => i * 37 + 11 * (i >> 3) + n);
          return seeds.map((seed) => String(explore.wire.xxh3(bytes, BigInt(seed))));
        })""",
        [sizes, list(map(str, seeds))],
    )
    for n, digests in zip(sizes, found, strict=True):
        data = bytes((i * 37 + 11 * (i >> 3) + n) & 255 for i in range(n))
        assert digests == [str(xxh3_64_intdigest(data, seed)) for seed in seeds], n


def test_a_damaged_message_is_refused(call: Call) -> None:
    message = pack({"h": torch.tensor([1.0, 2.0])})
    refused = call(
        """(explore, hex) => {
          const good = explore.bytesFrom(hex);
          const refuses = (bytes) => {
            try { explore.wire.unpack(bytes); return ""; } catch (e) { return e.message; }
          };
          const damaged = Array.from(good, (_, i) => good.map((b, j) => (i === j ? b ^ 4 : b)));
          return [good, ...damaged, good.slice(0, -1)].map(refuses);
        }""",
        message.hex(),
    )
    assert refused[0] == ""
    assert all(refused[1:])
