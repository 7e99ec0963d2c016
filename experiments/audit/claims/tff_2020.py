"""The megabits of a tutorial."""

import math

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict
from fltoolkit.codecs import Only, Pipeline, Quantize
from fltoolkit.models import mcmahan_cnn
from fltoolkit.wire import pack

CLIENTS, MEBIBIT, MEGABYTE = 10, 2**20, 1_000_000


def measure(seed: int, quick: bool) -> Values:
    """A round's megabits, one way: dense, with 28 of 32 bits in use as theirs, and ours."""
    tree = mcmahan_cnn(seed=seed).state_dict()
    dense = sum(8 * t.nbytes for t in tree.values())
    words = (
        0  # their integers: 28 bits of codes in a word of 32, two floats a tensor, large ones only
    )
    for tensor in tree.values():
        large = tensor.numel() > 10_000
        words += math.ceil(8 * tensor.numel() / 28) + 2 if large else tensor.numel()
    ours = 8 * len(Only(Pipeline(Quantize(8, seed=seed, stochastic=True))).encode(tree))
    plain = 8 * len(pack(tree))
    return {
        "dense": CLIENTS * dense / MEBIBIT,
        "theirs": CLIENTS * 32 * words / MEBIBIT,
        "ours": CLIENTS * ours / MEBIBIT,
        "packed": CLIENTS * plain / MEBIBIT,
    }


def judge(runs: Runs) -> Finding:
    """To the hundredth."""
    (values,) = runs["a round"]
    dense, theirs, ours = (
        values[name] * MEBIBIT / 8 / MEGABYTE for name in ("dense", "theirs", "ours")
    )
    words = (
        f"{dense:.2f} and {theirs:.2f} MB: exact, to the hundredth of a mebibit. That is 9.14 bits "
        f"per value and 3.47 times less, not 4. Eight bits that are packed take {ours:.2f} MB "
        "here, with all headers."
    )
    exact = (round(values["dense"], 2), round(values["theirs"], 2)) == (507.62, 146.46)
    factor = f"{values['packed'] / values['ours']:.1f}"
    return Finding(Verdict.AGREES if exact else Verdict.DISAGREES, words, factor, factor)


CLAIM = Claim(
    title="TensorFlow Federated's tutorial: 66.5 to 19.2 MB per round in 8 bits",
    group="systems",
    says="8-bit quantization of large tensors takes a round of ten clients from 66.54 to 19.20 MB "
    "each way. (The tutorial prints 507.62MiB and 146.46MiB, and counts bits: mebibits.)",
    source="TensorFlow Federated, tutorial on compression, release 0.4x",
    known="read",
    ours="The sizes of its codes, recomputed: 28 of the 32 bits of a word hold codes. Its meter "
    "and "
    "codecs are gone since. tests/core/codecs/test_other_systems.py holds the trap.",
    own_task=True,
    judge=judge,
    measures={"a round": measure},
    seeds=(0,),
)
