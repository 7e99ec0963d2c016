"""Images as JPEG files, whose common header is sent once.

The bytes of an entry are the header that all its JPEG files have in common (tables and sizes, some
600 bytes), once, and then of each file what follows its header.
"""

import warnings
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs.stage import Parts, Stage, check_number, floats, side, take_side, with_side
from fltoolkit.wire import WireError, check_num_values
from fltoolkit_research.pooled.compressors import side_of_square

RANGE, SHAPE = "r", "n"  # side information: each channel's least and largest value; the shape
LEAST_SIDE, MOST_SIDE = 8, 65_535  # JPEG works on blocks of 8 x 8; its sizes have two bytes
SCAN, END = b"\xff\xda", b"\xff\xd9"  # markers; END is nowhere else in a file


@dataclass
class Jpeg(Stage):
    """Send each image as a JPEG file of this quality; the header that all share is sent once.

    Images are entries [samples, channels, height, width] of one or three channels, or [samples,
    pixels] of square images of one channel, with sides from 8 to 65,535 pixels. Other entries are
    passed on as they are. Each channel's least value becomes 0 and its largest 255, and both travel
    along. Three channels are red, green and blue, and colours are sent at half the resolution.

    A JPEG file holds an 8 x 8 cosine transform, whose values are divided by a table and rounded;
    ``quality``, from 1 to 95, scales the table (Wallace 1992, "The JPEG still picture compression
    standard"). Pillow writes and reads the files.
    """

    quality: int = 50  # smaller = more compression

    def __post_init__(self) -> None:
        check_number("quality", self.quality, 1, 95)

    leaves_floats = False

    def apply(self, parts: Parts) -> Parts:
        """Each entry of images becomes the bytes of its files."""
        out = dict(parts)
        for name, values in floats(parts).items():
            images = _images(values)
            if images is None:
                continue
            flat = images.transpose(0, 1).flatten(1)
            limits = torch.stack([flat.min(1).values, flat.max(1).values], dim=1)
            pixels = ((images - _low(limits)) / _span(limits) * 255).round().byte()
            files = [_file(image, self.quality) for image in pixels.permute(0, 2, 3, 1).numpy()]
            start = _header(files[0])
            whole = files[0][:start] + b"".join(file[start:] for file in files)
            out[name] = torch.frombuffer(bytearray(whole), dtype=torch.uint8)
            out[side(name, RANGE)] = limits
            out[side(name, SHAPE)] = torch.tensor(values.shape)
        return out

    def undo(self, parts: Parts) -> Parts:
        """The images, as well as their files hold them."""
        out = dict(parts)
        for name in with_side(parts, SHAPE):
            whole, shape = out[name], take_side(out, name, SHAPE, torch.int64, None).tolist()
            if not isinstance(whole, Tensor) or whole.dtype != torch.uint8 or whole.dim() != 1:
                raise WireError(f"entry {name!r}: expected the bytes of JPEG files")
            samples, channels, height, width = _checked(name, shape)
            check_num_values(samples * channels * height * width)
            limits = take_side(out, name, RANGE, shape=(channels, 2))
            files = _files(whole.numpy().tobytes(), name)
            if len(files) != samples:
                raise WireError(f"entry {name!r}: expected {samples} images, found {len(files)}")
            size = height, width, channels
            pixels = torch.from_numpy(np.stack([_pixels(file, size, name) for file in files]))
            images = pixels.permute(0, 3, 1, 2).float() / 255 * _span(limits) + _low(limits)
            out[name] = images.reshape(shape).contiguous()
        return out


def _images(values: Tensor) -> Tensor | None:
    """[samples, channels, height, width] on the CPU, or None if the entry holds no such images."""
    try:
        shape = _checked("", list(values.shape))
    except WireError:
        return None
    return values.detach().cpu().reshape(shape)


def _checked(name: str, shape: list[int]) -> list[int]:
    """An entry's shape as samples, channels, height, width; WireError if it can hold no images."""
    length = side_of_square(shape)
    image = [shape[0], 1, length, length] if length else shape
    sides = image[2:] if len(image) == 4 and image[0] > 0 and image[1] in (1, 3) else []
    if not sides or not all(LEAST_SIDE <= pixels <= MOST_SIDE for pixels in sides):
        raise WireError(f"entry {name!r}: expected images, found shape {shape}")
    return image


def _low(limits: Tensor) -> Tensor:
    """Of each channel, to be added to images."""
    return limits[:, 0].reshape(1, -1, 1, 1)


def _span(limits: Tensor) -> Tensor:
    """Of each channel; 1 where all values are the same."""
    span = limits[:, 1] - limits[:, 0]
    return torch.where(span > 0, span, 1.0).reshape(1, -1, 1, 1)


def _file(pixels: np.ndarray, quality: int) -> bytes:
    """A JPEG file of uint8 [height, width, channels]."""
    from PIL import Image

    out = BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(
        out, "JPEG", quality=quality
    )
    return out.getvalue()


def _pixels(file: bytes, size: tuple[int, ...], name: str) -> np.ndarray:
    """uint8 [height, width, channels] of a JPEG file, which must have this size."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of sizes that nobody sends
            image = Image.open(BytesIO(file), formats=["JPEG"])
            found = image.height, image.width, len(image.getbands())
            if found != size:
                raise WireError(f"entry {name!r}: expected images of {size}, found {found}")
            return np.asarray(image).reshape(size)
    except (OSError, SyntaxError, ValueError, Warning, Image.DecompressionBombError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"entry {name!r}: damaged JPEG file: {error}") from None


def _header(file: bytes) -> int:
    """Where the compressed part of a file begins: after the header of its scan; 0 without one."""
    start = file.find(SCAN)
    return 0 if start < 0 else start + 2 + int.from_bytes(file[start + 2 : start + 4], "big")


def _files(whole: bytes, name: str) -> list[bytes]:
    """The inverse of joining: each file begins with the common header and ends with `END`."""
    start = _header(whole)
    *scans, rest = whole[start:].split(END)
    if not start or rest:
        raise WireError(f"entry {name!r}: expected JPEG files with one header")
    return [whole[:start] + scan + END for scan in scans]
