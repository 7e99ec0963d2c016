"""What other systems send, which have to be installed."""

import importlib.util
from pathlib import Path

import torch
from torch import Tensor

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread
from experiments.audit.measures import of_system
from fltoolkit.models import mcmahan_2nn

CLAIMS: dict[str, Claim] = {}
SIZE = 10_000
BITS = 4

ASKED = (2, 4, 8)


def nbytes(tensors: list[Tensor]) -> int:
    """Of the tensors alone, without any header."""
    return sum(t.numel() * t.element_size() for t in tensors)


def count_fedlab() -> Values:
    """Bits per value of QSGD, and how many times larger than dense the half of the values is."""
    from fedlab.contrib.compressor.quantization import QSGDCompressor
    from fedlab.contrib.compressor.topk import TopkCompressor

    x = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    values = {f"{b} bits": 8 * nbytes(QSGDCompressor(b).compress(x)) / SIZE for b in ASKED}
    half = nbytes([*TopkCompressor(0.5).compress(x)])
    return {**values, "half": half / (4 * SIZE)}


NAMES_FEDLAB = (*(f"{b} bits" for b in ASKED), "half")


def fedlab_qsgd(runs: Runs) -> Finding:
    """A bit more than was asked for is allowed: the sign."""
    (values,) = runs["FedLab"]
    got = [values[f"{bits} bits"] for bits in ASKED]
    words = (
        f"{spread(got, '.0f')} bits per value for 2, 4 and 8: the level as int32, the sign as a "
        f"byte; float32 has 32. Its top-k of a half is {values['half']:.1f} times as large as the "
        "tensor: places are int64."
    )
    right = all(value <= bits + 1.1 for value, bits in zip(got, ASKED, strict=True))
    return Finding(Verdict.AGREES if right else Verdict.UNTESTED, words)


CLAIMS["fedlab-qsgd"] = Claim(
    title="FedLab: QSGD in 2, 4 or 8 bits",
    group="systems",
    says='A compressor "QSGD" whose argument is the number of bits, and top-k with the share of '
    "values that is kept.",
    source="FedLab 1.3.0, fedlab.contrib.compressor",
    known="code",
    ours=f"Its compressors on {SIZE:,} normal values; tensors are weighed, without headers. "
    "tests/core/codecs/test_other_systems.py holds the trap.",
    own_task=True,
    judge=fedlab_qsgd,
    measures={"FedLab": of_system("fedlab", "fedlab==1.3.0", NAMES_FEDLAB, count_fedlab)},
    seeds=(0,),
)


def count_fedml() -> Values:
    """What comes back of normal values, of zeros, and of equal values; and what is sent."""
    folder = importlib.util.find_spec("fedml").submodule_search_locations[0]  # type: ignore
    spec = importlib.util.spec_from_file_location(
        "fedml_compression", Path(folder) / "utils" / "compression.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # the file alone: the package wants a server
    x = torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    codec = module.QSGDCompressor()
    with torch.random.fork_rng(devices=[]):
        sent = codec.compress(x, quantize_level=BITS)
        zeros = codec.compress(torch.zeros(10), quantize_level=BITS)
        means = torch.stack([codec.compress(x, quantize_level=BITS) for _ in range(200)]).mean(0)
    equal = module.QuantizationCompressor().compress(torch.ones(SIZE), quantize_level=BITS)
    return {
        "bits": 8.0 * sent.numel() * sent.element_size() / SIZE,
        "nan": float(zeros.isnan().float().mean()),
        "slope": float((means * x).sum() / (x * x).sum()),
        "kept": float((equal != 0).float().mean()),
    }


def fedml_qsgd(runs: Runs) -> Finding:
    """No NaN, and fewer bits."""
    (values,) = runs["FedML"]
    words = (
        f"{values['bits']:.0f} bits per value are sent for {BITS}: rounded values stay float32. "
        f"Its default scales the result down to keep the variance small: on average "
        f"{values['slope']:.3f} of a value comes back, as the name of its argument says. "
        f"Of a tensor of zeros {values['nan']:.0%} are NaN. Of {SIZE:,} equal values its other "
        f"quantizer, which rounds down, keeps {values['kept']:.0%}."
    )
    right = values["nan"] == 0 and values["bits"] < 32
    return Finding(Verdict.AGREES if right else Verdict.UNTESTED, words)


CLAIMS["fedml-qsgd"] = Claim(
    title="FedML: QSGD in few bits",
    group="systems",
    says="A compressor named after QSGD, whose argument is a quantization level. It does not say "
    "that it is unbiased: its argument is called is_biased, and is True.",
    source="FedML 0.9.6, fedml/utils/compression.py",
    known="code",
    ours=f"Its compressors with {BITS} bits on {SIZE:,} normal values, on zeros and on equal "
    "values. tests/core/codecs/test_other_systems.py holds the traps.",
    own_task=True,
    judge=fedml_qsgd,
    measures={
        "FedML": of_system("fedml", "fedml==0.9.6", ("bits", "nan", "slope", "kept"), count_fedml)
    },
    seeds=(0,),
)
SHAPES = {  # LoRA of rank 32 on q and v of 32 layers of width 4,096; and a small network
    "LoRA": [(32, 4096), (4096, 32)] * 64,
    "2NN": [tuple(p.shape) for p in mcmahan_2nn(seed=0).parameters()],
}


def count_flower() -> Values:
    """Bytes by FlowerTune's count_flower, of the message, and of the values alone."""
    from flwr.common import ArrayRecord
    from flwr.common.serde import array_record_to_proto

    found = {}
    for name, shapes in SHAPES.items():
        tree = {f"layer{k}.weight": torch.zeros(shape) for k, shape in enumerate(shapes)}
        record = ArrayRecord(tree)
        found[f"{name}, counted"] = float(record.count_bytes())
        found[f"{name}, sent"] = float(len(array_record_to_proto(record).SerializeToString()))
        found[f"{name}, values"] = float(sum(4 * t.numel() for t in tree.values()))
    return found


NAMES_FLOWER = [f"{name}, {what}" for name in SHAPES for what in ("counted", "sent", "values")]


def flowertune_budget(runs: Runs) -> Finding:
    """Within 1 % of the message."""
    (values,) = runs["Flower"]
    off = {n: 100 * (values[f"{n}, counted"] / values[f"{n}, sent"] - 1) for n in SHAPES}
    bits = {n: 32 * values[f"{n}, sent"] / values[f"{n}, values"] for n in SHAPES}
    listed = "; ".join(
        f"{n}: {values[f'{n}, sent']:,.0f} bytes are sent, {bits[n]:.2f} bits per value, and the "
        f"count is {off[n]:+.2f} % off"
        for n in SHAPES
    )
    words = f"{listed}. Nothing is compressed; float32 stays float32."
    right = all(abs(each) <= 1 for each in off.values())
    return Finding(Verdict.AGREES if right else Verdict.DISAGREES, words)


CLAIMS["flowertune-budget"] = Claim(
    title="FlowerTune: a budget of 200,000 MB, both ways",
    group="systems",
    says="Communication is limited to 200,000 MB in both directions, and counted as it is sent.",
    source="Flower 1.41, the FlowerTune template, strategy.py: ArrayRecord.count_bytes",
    known="code",
    quote="Communication budget: used %.2f MB (+%.2f MB this round) / 200,000 MB",
    quoted_from="what the template prints, as proposed in the review of flower, pull request 4013",
    ours="A record of LoRA (rank 32, 64 matrices of 4,096) and of the 2NN of McMahan et al.: the "
    "count beside the length of the serialized record.",
    own_task=True,
    judge=flowertune_budget,
    measures={"Flower": of_system("flwr", "flwr==1.41.0", NAMES_FLOWER, count_flower)},
    seeds=(0,),
)
SIZES = (100, 344, 10_000, 1_000_000)


def count_hivemind() -> Values:
    """Bytes of the message that hivemind makes of a tensor, for some sizes."""
    from hivemind.compression import serialize_torch_tensor
    from hivemind.proto.runtime_pb2 import CompressionType

    generator, found = torch.Generator().manual_seed(0), {}
    for size in SIZES:
        x = torch.randn(size, generator=generator)
        message = serialize_torch_tensor(x, CompressionType.UNIFORM_8BIT)
        found[f"{size}"] = float(len(message.SerializeToString()))
    return found


def hivemind_8bits(runs: Runs) -> Finding:
    """How long messages are, beside float32."""
    (values,) = runs["hivemind"]
    listed = ", ".join(
        f"{size:,} values: {values[f'{size}']:,.0f} bytes for {4 * size:,}" for size in SIZES
    )
    words = (
        f"{listed}. A codebook of 256 float32 values is in each message, so nothing is saved below "
        "some 350 values; a large message is a quarter of float32, as the name says."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIMS["hivemind-8bits"] = Claim(
    title="hivemind: uniform 8-bit compression",
    group="systems",
    says="A compression named after 8 bits per value. Its README prints no factor.",
    source="hivemind 1.1.12, hivemind/compression/quantization.py",
    known="code",
    ours="Its uniform quantization of normal values, as the message that it serializes.",
    judge=hivemind_8bits,
    measures={
        "hivemind": of_system(
            "hivemind", "hivemind==1.1.12", [str(n) for n in SIZES], count_hivemind
        )
    },
    seeds=(0,),
)
