"""A general compressor behind a pipeline, for comparison: zlib.

A compressed entry is a byte for the method, and, compressed, another entry from its first byte on:
as `BitPack` writes it, or with whole bytes for symbols, or a bitmap of places.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fltoolkit.arrays import Array
from fltoolkit.codecs import coders
from fltoolkit.codecs.stage import Indices, Symbols
from fltoolkit.wire import WireError

BYTES, DEFLATED = 1, 6  # methods


def _read_bytes(payload: Array, count: int, levels: int) -> Array:
    if len(payload) != count * _whole(levels).itemsize:
        raise WireError(f"expected {count} symbols in whole bytes, found {len(payload)} bytes")
    return payload.view(_whole(levels))


def _whole(levels: int) -> np.dtype[Any]:
    """The dtype of symbols in whole bytes."""
    return np.dtype("<u1" if levels <= 256 else "<u2")


@dataclass
class Deflate(coders.BitPack):
    """zlib, for comparison: over packed symbols or whole bytes, whichever is smaller.

    >>> import torch
    >>> symbols = Symbols(torch.zeros(1000, dtype=torch.uint8), num_levels=8)
    >>> sum(part.numel() for part in Deflate().apply({"w": symbols}).values()) < 50
    True
    """

    level: int = 6

    method: ClassVar[int] = DEFLATED
    symbol_methods: ClassVar[Mapping[int, coders.Read]] = {
        **coders.BitPack.symbol_methods,
        BYTES: _read_bytes,
    }

    def _encode(self, part: Symbols | Indices) -> list[Any]:
        plain = super()._encode(part)
        forms = [plain]  # a longer one sometimes becomes a shorter result
        if isinstance(part, Symbols):
            forms.append(
                coders.entry(part, BYTES, coders.numbers_of(part).astype(_whole(part.num_levels)))
            )
        elif part.size <= 64 * len(part.values):
            forms.append(
                coders.entry(
                    part, coders.BITMAP, np.packbits(coders.mask_of(part), bitorder="little")
                )
            )
        return [min((b"".join(plain), *map(self._compressed, forms)), key=len)]

    def _compressed(self, form: list[Any]) -> bytes:
        whole = b"".join(form)
        return (bytes([self.method]) + self._squeeze(whole)).ljust(
            coders.least_nbytes(len(whole)), b"\0"
        )

    def _squeeze(self, whole: bytes) -> bytes:
        return zlib.compress(whole, self.level)

    def _decode(self, data: Array, before: int) -> Symbols | Indices:
        if len(data) and data[0] == self.method:
            most = coders.FREE_SYMBOLS + coders.SYMBOLS_PER_BYTE * len(data)
            whole = self._expand(data[1:].tobytes(), most)
            data = np.frombuffer(bytearray(whole), np.uint8)  # symbols that can be written to
        return super()._decode(data, before)

    def _expand(self, squeezed: bytes, most: int) -> bytes:
        """The inverse of `_squeeze`, or its first ``most`` bytes."""
        try:
            return zlib.decompressobj().decompress(squeezed, most)
        except zlib.error as error:
            raise WireError(f"damaged bytes: {error}") from None
