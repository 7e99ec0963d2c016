"""Three codecs as other systems write them, before the tests that the package's own codecs pass.

    python examples/foreign_codecs.py     # the table of docs/codecs.md; needs pytest

In the manner of hivemind's uniform 8 bits (compression/quantization.py), of torchft's FP8 with a
scale for each row (quantization.py), and of top-k as systems send it, with places of 64 bits.
`Foreign` is all that such a codec needs to go through a `Channel`.
"""

import io
import math
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from fltoolkit.codecs import Codec
from fltoolkit.testing import TREES, Conformance
from fltoolkit.trees import Tree
from fltoolkit.wire import pack, unpack


class Foreign(Codec):
    """Makes a codec of this package of ``compress`` and ``extract``, which handle one tensor."""

    def encode(self, tree: Tree) -> bytes:
        parts = {name: self.compress(x) for name, x in tree.items()}
        return pack({f"{name}/{p}": x for name, own in parts.items() for p, x in own.items()})

    def decode(self, message: bytes) -> Tree:
        parts: dict[str, Tree] = {}
        for path, x in unpack(message).items():
            name, _, part = path.rpartition("/")
            parts.setdefault(name, {})[part] = x
        return {name: self.extract(**own) for name, own in parts.items()}


@dataclass(eq=False)
class Uniform8(Foreign):
    """256 bins over six standard deviations; a bin is read as the mean of its values."""

    def compress(self, x: Tensor) -> Tree:
        centered = x - x.mean()
        step = float(6 * centered.norm() / math.sqrt(x.numel() - 1) / 256)
        codes = torch.quantize_per_tensor(centered, step, 128, torch.quint8).int_repr()
        sums = torch.bincount(codes.flatten(), weights=x.flatten(), minlength=256)
        counts = torch.bincount(codes.flatten(), minlength=256).clamp(min=1)
        return {"codes": codes, "means": (sums / counts).float()}

    def extract(self, codes: Tensor, means: Tensor) -> Tensor:
        return means[codes.long()]


@dataclass(eq=False)
class RowFP8(Foreign):
    """Each row divided by its largest magnitude, in 8-bit floats up to 448."""

    def compress(self, x: Tensor) -> Tree:
        scales = x.reshape(len(x), -1).abs().amax(dim=1) / 448
        scaled = x / scales.reshape(-1, *[1] * (x.dim() - 1))
        return {"codes": scaled.to(torch.float8_e4m3fn).view(torch.uint8), "scales": scales}

    def extract(self, codes: Tensor, scales: Tensor) -> Tensor:
        scaled = codes.view(torch.float8_e4m3fn).float()
        return scaled * scales.reshape(-1, *[1] * (codes.dim() - 1))


@dataclass(eq=False)
class Largest(Foreign):
    """The largest hundredth of the values, and where they stand."""

    def compress(self, x: Tensor) -> Tree:
        places = x.flatten().abs().topk(max(1, x.numel() // 100)).indices
        return {"values": x.flatten()[places], "places": places, "shape": torch.tensor(x.shape)}

    def extract(self, values: Tensor, places: Tensor, shape: Tensor) -> Tensor:
        flat = torch.zeros(int(shape.prod()), dtype=values.dtype)
        return flat.scatter(0, places, values).reshape(shape.tolist())


def fails(codec: Codec, test: str, trees: dict[str, Tree]) -> bool:
    """Whether a test of the suite, with these trees, ends in an error of any kind."""
    suite = type("Suite", (Conformance,), {"trees": trees})()
    with redirect_stdout(io.StringIO()):
        try:
            getattr(suite, test)(codec)
        except (Exception, pytest.fail.Exception):
            return True
    return False


def main() -> None:
    """One row for each test that a codec fails; of the first, for which trees."""
    warnings.simplefilter("ignore")  # torch's, of quantized tensors
    codecs: dict[str, Codec] = {"8 bits": Uniform8(), "FP8": RowFP8(), "top-k": Largest()}
    tests = [name for name in vars(Conformance) if name.startswith("test_")]
    print("| | " + " | ".join(codecs) + " |\n|---|---|---|---|")
    for test in tests:
        cells = []
        for codec in codecs.values():
            if "trees" in getattr(Conformance, test).__code__.co_names:
                bad = [name for name, x in TREES.items() if fails(codec, test, {name: x})]
                cells.append(", ".join(bad))
            else:
                cells.append("fails" if fails(codec, test, TREES) else "")
        if any(cells):
            print(f"| {test.removeprefix('test_').replace('_', ' ')} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
