"""All codecs of the package through the conformance suite, and how stages are put together."""

import copy
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from every_codec import PIPELINES, for_conformance

from experiments.replications.deflate import Deflate
from experiments.replications.dgc import DGC
from experiments.replications.lowrank import PowerSGD
from experiments.replications.zstandard import Zstd
from fltoolkit.cli import main
from fltoolkit.codecs import (
    BitPack,
    Entropy,
    ErrorFeedback,
    Float8,
    Half,
    Identity,
    Only,
    Pipeline,
    Quantize,
    TopK,
)
from fltoolkit.codecs.stage import floats
from fltoolkit.testing import Conformance, normal
from fltoolkit.trees import masked_mean
from fltoolkit.wire import WireError, pack, unpack
from fltoolkit_research.codecs import (
    QSGD,
    STC,
    BFloat16,
    Difference,
    LloydMax,
    RandomK,
    RandTopK,
    Rotate,
    Sign,
)


@pytest.mark.parametrize("codec", for_conformance(PIPELINES))
class TestCodecs(Conformance):
    @pytest.mark.later
    def test_hostile_content_ends_in_a_wire_error_or_a_tree(self, codec):
        super().test_hostile_content_ends_in_a_wire_error_or_a_tree(codec)


# --------------------------------------------------------------------------------- what is sent
def test_explain_shows_three_sizes():
    codec = Pipeline(TopK(0.1), Quantize(8), Entropy())
    rows = codec.explain({"w": normal(400, 400)})
    assert [row.stage.partition("(")[0] for row in rows] == ["TopK", "Quantize", "Entropy"]
    assert rows[0].nominal_bits >= 16_000 * (32 + 18)
    assert rows[1].nominal_bits < rows[0].nominal_bits
    assert rows[1].entropy_bits < rows[1].nominal_bits
    assert rows[2].nbytes == len(codec.encode({"w": normal(400, 400)}))
    assert 8 * rows[2].nbytes < rows[1].entropy_bits * 1.02 + 8 * 64
    assert str(rows[0]).startswith("<TopK(fraction=0.1, scope='model'): ")
    assert "tensor(" not in str(rows)


def test_a_coder_comes_last():
    with pytest.raises(
        ValueError, match=r"Entropy\(\) turns symbols into bytes: it must come last"
    ):
        Pipeline(Entropy(), Quantize(8))


@pytest.mark.parametrize("last", [Quantize(8), QSGD(4), LloydMax(2), Float8(), Half(), Sign()])
@pytest.mark.parametrize("after", [Quantize(4), TopK(0.1), BFloat16()])
def test_what_would_have_nothing_to_do_is_told(last, after):
    with pytest.raises(ValueError, match=r"would have nothing to do: .* leaves no float values"):
        Pipeline(last, after)
    Pipeline(last, Entropy())
    if after.leaves_floats:
        Pipeline(after, last)


def test_stages_that_say_so_leave_no_floats():
    """And others do: else a pipeline that makes sense would be refused."""
    for codec in PIPELINES:
        for stage in getattr(codec, "stages", ()):
            parts = copy.deepcopy(stage).apply({"w": normal(40, 50)})
            if not isinstance(stage, BitPack):
                assert bool(floats(parts)) == stage.leaves_floats


# --------------------------------------------------------------------------- what was really sent
MASKED = {"a": normal(12, 20), "b": normal(9).half(), "none": torch.zeros(0), "n": torch.tensor(4)}


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(TopK(0.1)),
        Pipeline(TopK(0.1, scope="tensor"), Half()),
        Pipeline(TopK(0.1), Rotate(), Quantize(8)),
        Pipeline(TopK(0.1), Quantize(8), Entropy()),
        Pipeline(RandomK(0.1), Deflate()),
        Pipeline(RandTopK(0.2), Zstd()),
        Pipeline(STC(0.1), Entropy()),
        Pipeline(DGC(0.1)),
        ErrorFeedback(Pipeline(TopK(0.1), Quantize(8, stochastic=True), Entropy())),
        ErrorFeedback(Only(Pipeline(TopK(0.1)), min_size=8)),
        Only(ErrorFeedback(Pipeline(TopK(0.1))), min_size=8),
    ],
    ids=repr,
)
def test_masks_tell_what_was_sent(codec):
    sender, receiver = copy.deepcopy(codec), copy.deepcopy(codec)
    for _ in range(2):
        message = sender.encode(MASKED)
        received, masks = receiver.decode(message), receiver.masks(message)
        assert masks.keys() == {"a", "b"}
        for name, mask in masks.items():
            assert mask.dtype == torch.bool
            assert mask.shape == MASKED[name].shape
            assert not received[name][~mask].any()
        sent = torch.cat([mask.reshape(-1) for mask in masks.values()])
        values = torch.cat([received[name].reshape(-1) for name in ("a", "b")])
        assert 24 <= sent.sum() <= 50
        assert (values[sent] != 0).float().mean() > 0.9  # quantization may make zeros
        assert masked_mean([received], [masks], [1])["a"].equal(received["a"])


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_a_zero_that_was_sent_counts_as_sent(scope):
    w = torch.tensor([-3.0, 0.0, 0.0, 0.0])
    for later in ((), (Quantize(2), Entropy())):
        codec = Pipeline(TopK(0.5, scope), *later)
        assert codec.masks(codec.encode({"w": w}))["w"].tolist() == [True, True, False, False]


def test_two_sparse_stages_send_what_both_kept():
    first, second = TopK(0.5), RandomK(0.5, unbiased=False)
    codec, tree = Pipeline(first, second, Half()), {"a": normal(6, 10), "b": normal(40)}
    message = codec.encode(tree)
    received, masks = codec.decode(message), codec.masks(message)
    assert masks.keys() == {"a", "b"}
    assert sum(int(mask.sum()) for mask in masks.values()) == 25
    assert all(torch.equal(masks[name], received[name] != 0) for name in tree)


def test_what_was_sent_whole_has_no_mask():
    tree = {"a": normal(30, 20), "b": normal(50)}
    whole = [Identity(), Pipeline(), Pipeline(Quantize(8)), Only(Pipeline(TopK(0.1)))]
    for codec in (*whole, ErrorFeedback(Identity()), Pipeline(Rotate(), TopK(0.2))):
        assert copy.deepcopy(codec).masks(copy.deepcopy(codec).encode(tree)) == {}
    some = Only(Pipeline(TopK(0.1)), min_size=100)
    assert some.masks(some.encode(tree)).keys() == {"a"}
    some = Pipeline(PowerSGD(2), TopK(0.2))  # which values of a factor say nothing of the product
    assert some.masks(some.encode(tree)).keys() == {"b"}


def test_masks_need_an_undamaged_message():
    codec = ErrorFeedback(Only(Pipeline(TopK(0.1)), min_size=1))
    message = codec.encode({"w": normal(50)})
    for bad in (message[:-1], message[:20] + b"\x99" + message[21:], b""):
        with pytest.raises(WireError):
            codec.masks(bad)


# ---------------------------------------------------------------- what comes from a hostile sender
def test_hostile_dtypes_are_wire_errors():
    codec, tree = Pipeline(Quantize(8)), {"w": normal(6).half(), "n": torch.tensor([1, 2])}
    entries = unpack(codec.encode(tree))
    name = "w\x1fdtype"
    assert entries[name].tolist() == 1
    for code in (
        torch.tensor([1, 1]).byte(),
        torch.zeros(0, dtype=torch.uint8),
        torch.tensor(1),
        torch.tensor(1.0).bfloat16(),
        torch.tensor(10).byte(),
        torch.tensor(8).byte(),  # int64
        torch.tensor(True),
    ):
        with pytest.raises(WireError, match="unknown here"):
            codec.decode(pack({**entries, name: code}))
    with pytest.raises(WireError, match="unknown here"):
        codec.decode(pack({**entries, "n\x1fdtype": entries[name]}))
    with pytest.raises(WireError, match="unknown here"):
        codec.decode(pack({**entries, "v\x1fdtype": entries[name]}))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "codec", [Pipeline(QSGD(1)), Pipeline(RandomK(0.2)), Pipeline(PowerSGD(2))], ids=repr
)
def test_what_was_rounded_up_stays_finite_in_its_dtype(codec, dtype):
    top = torch.full((20, 30), torch.finfo(dtype).max).to(dtype)
    codec = copy.deepcopy(codec)
    for _ in range(5):
        out = codec.decode(codec.encode({"w": top}))["w"]
        assert out.isfinite().all()
        assert out.max() == top[0, 0]


# ------------------------------------------------------------------------ a codec of one's own
PAGE = (Path(__file__).parents[3] / "docs" / "codecs.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_pages_example_channel_works():
    namespace = {}
    exec(BLOCKS[0], namespace)
    for kind in ("activations", "gradients", "update", "model"):
        received = namespace["channel"].send("alice", "bob", kind, {"w": normal(20, 30)})["w"]
        assert received.shape == (20, 30)
    assert namespace["channel"].nbytes() < 2 * 20 * 30 * 4 * 1.5


PAGE_CODE = {"__name__": "docs_codecs"}
exec("".join(BLOCKS[:5]), PAGE_CODE)
TestPowersOfTwo = PAGE_CODE["TestPowersOfTwo"]
TestSteps = PAGE_CODE["TestSteps"]
TestAbove = PAGE_CODE["TestAbove"]


def test_the_pages_codec_does_what_it_says():
    codec = Pipeline(PAGE_CODE["PowersOfTwo"]())
    x = torch.tensor([0.3, -0.9, 0.0, 1e-5, 2.0])
    out = codec.decode(codec.encode({"x": x}))["x"]
    assert out.tolist() == [0.25, -1.0, 0.0, 2.0**-17, 1.0]


def test_the_pages_sparse_stage_sends_places_and_says_which():
    codec = Pipeline(PAGE_CODE["Above"](1.0))
    message = codec.encode({"x": torch.tensor([[0.5, -3.0], [1.0, 0.0]])})
    assert codec.decode(message)["x"].tolist() == [[0.0, -3.0], [1.0, 0.0]]
    assert codec.masks(message)["x"].tolist() == [[False, True], [True, False]]


def test_what_is_no_codec_is_refused_at_once():
    for wrong in ("Quantize(8)", Quantize, Pipeline(Quantize(8))):
        with pytest.raises(TypeError, match="is no stage"):
            Pipeline(wrong)
    for outer in (ErrorFeedback, Only, Difference):
        for wrong in (TopK(0.1), "TopK(0.1)", Pipeline):
            with pytest.raises(TypeError, match=rf"{outer.__name__}\(.*needs a codec"):
                outer(wrong)


@pytest.mark.later
def test_the_pages_codec_goes_into_a_sweep(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[5], PAGE_CODE)
    (_, _, full), (*name, _, small) = (
        line.split() for line in capsys.readouterr().out.splitlines()
    )
    assert " ".join(name) == "powers of two"
    assert 3.9 < int(full) / int(small) < 4.1


@pytest.mark.slow
def test_the_pages_command_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("my_codecs.py").write_text(BLOCKS[1])
    Path("plan.json").write_text(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    lines = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()
    assert [main(shlex.split(line)[1:]) for line in lines] == [0, 0]
    assert "| powers of two |" in capsys.readouterr().out


def test_doubles_beyond_float32_are_an_error_and_large_sums_are_not():
    codec = Pipeline(Quantize(8))
    with pytest.raises(ValueError, match="'w' holds NaN or infinite"):
        codec.encode({"w": torch.tensor([1e300], dtype=torch.float64)})
    large = torch.full((4,), 3e38)  # their sum overflows, they do not
    assert torch.equal(codec.decode(codec.encode({"w": large}))["w"], large)
