"""Fewer pixels: the sender averages blocks of pixels, and the receiver enlarges the image again."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate

from fltoolkit.codecs.stage import Parts, Stage, expect_values, floats, side, take_side, with_side
from fltoolkit.wire import WireError, check_num_values
from fltoolkit_research.pooled.compressors import side_of_square

FLAT = "f"  # side information: 1 if the images came as [samples, pixels]


@dataclass
class Shrink(Stage):
    """Send the means of blocks of ``factor`` times ``factor`` pixels.

    Images are entries [samples, channels, height, width], or [samples, pixels] of square images of
    one channel. The receiver enlarges them by bilinear interpolation, so that the network's input
    keeps its size. Entries that are no images, or whose sides ``factor`` does not divide, are
    passed on as they are.

    >>> from fltoolkit.codecs import Pipeline
    >>> images = {"x": torch.rand(10, 64)}
    >>> [len(Pipeline(*stages).encode(images)) for stages in ((), (Shrink(2),))]
    [2571, 657]
    """

    factor: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.factor, int) or self.factor < 2:
            raise ValueError(f"factor={self.factor!r}: give a whole number, 2 or more")

    def apply(self, parts: Parts) -> Parts:
        """Each entry of images becomes smaller images."""
        out = dict(parts)
        for name, values in floats(parts).items():
            if (images := self._images(values)) is None:
                continue
            small = avg_pool2d(images, self.factor)
            out[name] = small.flatten(1) if values.dim() == 2 else small
            out[side(name, FLAT)] = torch.tensor(values.dim() == 2)
        return out

    def undo(self, parts: Parts) -> Parts:
        """The images at their first size."""
        out = dict(parts)
        for name in with_side(parts, FLAT):
            flat = bool(take_side(out, name, FLAT, torch.bool))
            small = expect_values(parts, name)
            check_num_values(small.numel() * self.factor**2)
            images = _square(small) if flat else small if small.dim() == 4 else None
            if images is None or not images.numel():
                raise WireError(f"entry {name!r}: expected images, found shape {small.shape}")
            large = interpolate(
                images, scale_factor=self.factor, mode="bilinear", align_corners=False
            )
            out[name] = large.flatten(1) if flat else large
        return out

    def _images(self, values: Tensor) -> Tensor | None:
        """The entry as images whose sides can be divided; None for anything else."""
        images = values if values.dim() == 4 else _square(values)
        if images is None or images.shape[2] % self.factor or images.shape[3] % self.factor:
            return None
        return images


def _square(values: Tensor) -> Tensor | None:
    """[samples, pixels] as square images of one channel; None where that is not possible."""
    length = side_of_square(values.shape)
    return values.reshape(-1, 1, length, length) if length else None
