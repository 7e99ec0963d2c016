"""Zstandard behind a pipeline, for comparison with the package's coders.

An entry is written as `Deflate` writes it, with another method.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.replications.deflate import Deflate
from fltoolkit.wire import WireError


@dataclass
class Zstd(Deflate):
    """Zstandard, for comparison; needs the package ``zstandard``."""

    level: int = 1

    method: ClassVar[int] = 7

    def _squeeze(self, whole: bytes) -> bytes:
        squeezed: bytes = _zstandard().ZstdCompressor(level=self.level).compress(whole)
        return squeezed

    def _expand(self, squeezed: bytes, most: int) -> bytes:
        zstandard = _zstandard()
        try:
            if (size := zstandard.frame_content_size(squeezed)) > most:
                raise WireError(f"damaged bytes: {size} bytes in {len(squeezed)}")
            whole: bytes = zstandard.ZstdDecompressor().decompress(squeezed, max_output_size=most)
        except zstandard.ZstdError as error:
            raise WireError(f"damaged bytes: {error}") from None
        return whole


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise ImportError("Zstd() needs a package: pip install zstandard") from None
    return zstandard
