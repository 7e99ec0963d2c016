"""The threshold lab: codecs by bits."""

import torch

from fltoolkit.codecs import Identity
from fltoolkit_course.labs.train_threshold import codec


def test_codecs_by_bits() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    sizes = {bits: len(codec(bits).encode({"h": values})) for bits in (32, 16, 8, 6, 4, 2)}
    assert codec(32) == Identity()
    for bits, nbytes in sizes.items():
        assert 0 <= nbytes - 1000 * bits / 8 < 60
