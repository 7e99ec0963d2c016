"""A message decodes to the same bits on every machine: else the two ends of a link part."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import machines
import pytest
import torch
from core.codecs import decoded_elsewhere
from machines import MACHINES
from stored_runs import numbers

from fltoolkit_research.codecs.rotate import (
    DIGITS,
    _hadamard_in_order,
    gaussian_levels,
)

SCRIPT = Path(__file__).with_name("decoded_elsewhere.py")
LARGE = "d08e9006bffa8c692247c4394ac8373601f0346125868b5b928e509598a02ae4"


def digests(*words, **variables):
    """Of each codec, for each file, of what its messages decode to on such a machine."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *map(str, words)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.machines
def test_the_emulation_is_one():
    """Each library uses no more than the machine has that this process plays, if it plays one."""
    assert machines.used_in_spite() == []


def test_an_emulation_that_does_nothing_is_found(monkeypatch):
    """Libraries read these variables when they are loaded; to set them later is too late."""
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("this processor has nothing that could be used in spite of the variables")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert [found.split(":")[0] for found in machines.used_in_spite()][:2] == ["torch", "numpy"]


@pytest.mark.slow
@pytest.mark.skipif("SSE" not in machines.possible(), reason="these variables are for x86-64")
def test_every_codec_decodes_to_the_same_bits(tmp_path):
    """Messages written on this machine, and messages written on the oldest one, read on all."""
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    decoded_elsewhere.write(here)
    there_on_sse, here_on_sse = digests("--write", there, here, **MACHINES["SSE"])
    wrote = [decoded_elsewhere.decoded(here), there_on_sse]
    read = {"this": [wrote[0], decoded_elsewhere.decoded(there)]}
    read["SSE"] = [here_on_sse, there_on_sse]
    for name in {*machines.possible()} - {"SSE"}:
        read[name] = digests(here, there, **MACHINES[name])
    for name, both in read.items():
        for mine, theirs in zip(both, wrote, strict=True):
            assert {codec for codec in theirs if mine[codec] != theirs[codec]} == set(), name


@pytest.mark.machines
def test_large_transforms_have_the_bits_of_the_first_machine():
    """Stored messages are small; these are of the sizes at which kernels split their work."""
    digest = hashlib.sha256()
    for k in range(17):
        digest.update(
            _hadamard_in_order(torch.from_numpy(numbers(1 << k, start=k))).numpy().tobytes()
        )
    assert digest.hexdigest() == LARGE


@pytest.mark.machines
@pytest.mark.parametrize("bits", range(1, 9))
def test_levels_to_six_digits_are_in_no_doubt(bits):
    """No level is so near to the middle of two roundings that another machine takes the other.

    On one with SSE only, levels differ from those with AVX-512 by 4e-11 at most.
    """
    doubt = min(abs(level * 10**DIGITS % 1 - 0.5) for level in gaussian_levels(bits))
    assert doubt * 10**-DIGITS > 1e-9
