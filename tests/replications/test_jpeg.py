"""Images as JPEG files, and fewer pixels; forged files are refused."""

from io import BytesIO

import pytest
import torch

from experiments.replications.jpeg import Jpeg
from experiments.replications.shrink import Shrink
from fltoolkit import load
from fltoolkit.codecs import Pipeline
from fltoolkit.testing import TREES, Conformance
from fltoolkit_research.pooled import lossless


@pytest.mark.parametrize("channels", [1, 3])
def test_what_arrives_is_what_the_files_hold(channels):
    from PIL import Image

    count = torch.arange(4 * channels).reshape(4, channels, 1, 1)
    images = torch.sin(torch.arange(16)[:, None] / 5 + torch.arange(24) / 7 + count)
    limits = [(float(c.min()), float(c.max())) for c in images.transpose(0, 1)]
    expected = []
    for image in images:
        pixels = [((c - low) / (high - low) * 255).round() for c, (low, high) in
                  zip(image, limits, strict=True)]  # fmt: skip
        shown, out = torch.stack(pixels, dim=-1).byte().numpy(), BytesIO()
        Image.fromarray(shown.squeeze()).save(out, "JPEG", quality=60)
        read = torch.tensor(list(Image.open(out).tobytes())).reshape(16, 24, channels)
        expected.append([read[..., k] / 255 * (high - low) + low for k, (low, high) in
                         enumerate(limits)])  # fmt: skip
    codec = Pipeline(Jpeg(60))
    back = codec.decode(codec.encode({"x": images}))["x"]
    assert torch.allclose(back, torch.stack([torch.stack(e) for e in expected]), atol=1e-5)


def test_digits_and_entries_that_are_no_images():
    data, codec = load("digits_known_writers"), lossless(Jpeg(50))
    flat = codec.decode(codec.encode({"x": data.x_train[:30].flatten(1)}))["x"]
    assert torch.equal(flat, codec.decode(codec.encode({"x": data.x_train[:30]}))["x"].flatten(1))
    for other in (torch.rand(5, 60), torch.rand(64), torch.rand(2, 2, 8, 8), torch.rand(3, 49)):
        assert torch.equal(codec.decode(codec.encode({"x": other}))["x"], other)
    same = torch.full((2, 64), 3.0)
    assert torch.equal(codec.decode(codec.encode({"x": same}))["x"], same)


@pytest.mark.parametrize("codec", [Pipeline(Shrink(2)), lossless(Jpeg(40))], ids=repr)
class TestConformance(Conformance):
    trees = TREES


def test_shrinking_and_enlarging():
    rows = torch.arange(8.0)
    images = (rows[:, None] + rows).reshape(1, 1, 8, 8).repeat(3, 2, 1, 1)
    codec = Pipeline(Shrink(2))
    back = codec.decode(codec.encode({"x": images}))["x"]
    assert back.shape == images.shape
    inside = (slice(None), slice(None), slice(1, -1), slice(1, -1))
    assert torch.allclose(back[inside], images[inside])  # a slope survives but at the edges
    flat = codec.decode(codec.encode({"x": images[:, 0].flatten(1)}))["x"]
    assert torch.equal(flat, back[:, 0].flatten(1))
    odd = {"x": torch.rand(4, 49)}
    assert torch.equal(codec.decode(codec.encode(odd))["x"], odd["x"])
    with pytest.raises(ValueError, match="factor=1"):
        Shrink(1)
