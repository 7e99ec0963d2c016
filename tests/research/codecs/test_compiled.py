"""Compiled loops: the bits of the plain code, or a warning and the plain code."""

import os
import shutil

import machines
import numpy as np
import pytest
import torch

from fltoolkit import compiled
from fltoolkit.codecs import Entropy, Pipeline, Quantize
from fltoolkit.codecs.entropy import Fast, Plain
from fltoolkit.testing import normal
from fltoolkit.wire import WireError
from fltoolkit_research.codecs import DRIVE, EDEN, ContextEntropy, Rotate, _lanes, compile, rotate

pytestmark = [
    pytest.mark.machines,
    pytest.mark.skipif(not shutil.which(os.environ.get("CC", "cc")), reason="no C compiler here"),
]
LARGE = 70_001
WIDTHS = compile.WIDTHS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(autouse=True)
def _elsewhere(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    compiled.functions.cache_clear()
    yield
    compiled.functions.cache_clear()


def build(folder, kind, monkeypatch):
    """Build for processors of this kind, unless it was done before or this one has less.

    Other processors than x86-64, which have no such kinds, play wide vectors by some narrow ones.
    """
    here = torch.backends.cpu.get_cpu_capability()
    if not machines.possible():
        widths = {name: (width,) for name, (width, _) in WIDTHS.items()}
        monkeypatch.setattr(compile, "WIDTHS", widths)
    elif machines.LEVELS.index(kind) > machines.LEVELS.index(here):
        pytest.skip("this processor has no such instructions")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: kind)
    if not compiled.place().exists():
        assert compile.main() == 0
    assert compiled.place().is_relative_to(folder)


@pytest.fixture(params=machines.LEVELS)
def library(request, folder, monkeypatch):
    build(folder, request.param, monkeypatch)
    return compiled.functions(rotate.same_bits)


@pytest.mark.parametrize("k", range(4, 19))
def test_rotations(library, k):
    """All numbers of levels, large and tiny values, minus zero."""
    n = (1 << k) + 3 * k
    y = normal(n, seed=k) * 10.0 ** (80 * normal(n, seed=k + 1)).clamp(-45, 30)
    y[::7] = -0.0
    bits = rotate._bits(k, "w", n)
    back = rotate._compiled(library, y, bits, back=True), rotate._back_in_order(y, bits)
    assert torch.equal(*(x.view(torch.int32) for x in back))
    there = rotate._compiled(library, normal(n), bits, back=False)
    torch.testing.assert_close(rotate._back_in_order(there, bits), normal(n), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_the_range_coder(library, seed):
    """Also damaged words: the same numbers, or the same error."""
    rng = np.random.default_rng(seed)
    weights = [rng.random(size) ** rng.choice([1, 40]) + 1e-9 for size in (2, 17, 256, 4081)]
    calls = [(rng.choice(len(w), 500, p=w / w.sum()), w) for w in weights]
    damaged = b"\xff" * (seed % 3 * 4) + rng.bytes(300)
    for words in (Plain.write(calls), damaged):
        read = []
        for coder in (Plain(words), Fast(words, library)):
            try:
                read.append([coder.read(500, w).tolist() for w in weights])
            except WireError as error:
                read.append(str(error))
        assert read[0] == read[1]


@pytest.mark.parametrize("levels", [2, 3, 16, 256, 4096])
def test_lanes(library, levels):
    numbers = np.arange(30_001, dtype=np.intp) ** 2 * 40_503 % 1_000_003 % levels
    weights = 1.0 / (1 + np.arange(levels))
    states, words, left = plain = _lanes._write([(numbers, weights)], 300, None)
    assert _lanes._write([(numbers, weights)], 300, library) == plain
    for end in (0, 2):
        parts = (np.frombuffer(part, np.uint8) for part in (states, words[: len(words) - end]))
        reader = _lanes.LaneReader(*parts, library)
        if not end:
            read = reader.read(len(numbers), weights)
            assert np.array_equal(read, numbers[: len(numbers) - left[0]])
            reader.expect_end()
        else:
            with pytest.raises(WireError, match="end too early"):
                reader.read(len(numbers), weights)


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(Quantize(8), Entropy()),
        Pipeline(Quantize(4), ContextEntropy()),
        Pipeline(Rotate(), Quantize(4)),
        Pipeline(DRIVE()),
        Pipeline(EDEN(3), Entropy()),
    ],
    ids=repr,
)
def test_messages_are_decoded_alike(codec, folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "nothing"))
    message = codec.encode({"w": normal(LARGE)})
    plain = codec.decode(message)["w"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    compiled.functions.cache_clear()
    build(folder, torch.backends.cpu.get_cpu_capability(), monkeypatch)
    calls, call = [], compiled.call
    monkeypatch.setattr(compiled, "call", lambda *given: calls.append(given) or call(*given))
    assert torch.equal(codec.decode(message)["w"].view(torch.int32), plain.view(torch.int32))
    assert calls


@pytest.mark.parametrize("wrong", ["other bits", "no library", "a function less"])
def test_a_library_that_is_wrong_is_not_used(wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = compile.SOURCE.read_text(encoding="utf-8")
    changes = {"other bits": ("b = a - b;", "b = b - a;"), "a function less": (" rotate(", " r(")}
    changed = tmp_path / "changed.c"
    changed.write_text(source.replace(*changes.get(wrong, ("", ""))), encoding="utf-8")
    monkeypatch.setattr(compile, "SOURCE", changed)
    compile.build(compiled.place())
    if wrong == "no library":
        compiled.place().write_bytes(b"nothing")
    codec = Pipeline(DRIVE())
    with pytest.warns(UserWarning, match="is not used .*, the plain code is. Delete it, or build"):
        there = codec.decode(codec.encode({"w": normal(LARGE)}))
    assert there["w"].isfinite().all()


def test_without_a_compiler_the_plain_code_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compile.main() == 1
    assert "nothing was built, and the plain code goes on" in capsys.readouterr().err
    assert not compiled.place().exists()
