"""QSGD of FedML."""

import importlib.util
from pathlib import Path

import torch

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict
from experiments.audit.measures import of_system

SIZE, BITS = 10_000, 4


def count() -> Values:
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


def judge(runs: Runs) -> Finding:
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


CLAIM = Claim(
    title="FedML: QSGD in few bits",
    group="systems",
    says="A compressor named after QSGD, whose argument is a quantization level. It does not say "
    "that it is unbiased: its argument is called is_biased, and is True.",
    source="FedML 0.9.6, fedml/utils/compression.py",
    known="code",
    ours=f"Its compressors with {BITS} bits on {SIZE:,} normal values, on zeros and on equal "
    "values. tests/core/codecs/test_other_systems.py holds the traps.",
    own_task=True,
    judge=judge,
    measures={"FedML": of_system("fedml", "fedml==0.9.6", ("bits", "nan", "slope", "kept"), count)},
    seeds=(0,),
)
