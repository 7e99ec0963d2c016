"""A message between the verifier and a process as bytes: a header in JSON, then arrays.

Nobody is charged for these bytes. No torch, so that a process starts in a moment; no pickle.
"""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LARGEST = 1 << 28  # bytes of one message, so that a party cannot fill the verifier's memory
LARGEST_HEADER = 1 << 16  # bytes: when it is read, JSON takes up to thirty times as many
_DTYPES = ("|u1", "|b1", "<i8", "<f4", "<f8")


def to_bytes(header: dict[str, Any], arrays: list[Array]) -> bytes:
    """One message: its length (8 bytes), the header's length (4 bytes), the header, the arrays.

    >>> parse(to_bytes({"do": "answer"}, [np.zeros(2, np.uint8)])[8:])
    ({'do': 'answer'}, [array([0, 0], dtype=uint8)])
    """
    kept = [np.ascontiguousarray(array) for array in arrays]
    about = [[array.dtype.str, list(array.shape)] for array in kept]
    head = json.dumps({**header, "arrays": about}).encode()
    body = b"".join([len(head).to_bytes(4, "little"), head, *(a.tobytes() for a in kept)])
    return len(body).to_bytes(8, "little") + body


def length_of(first: bytes) -> int:
    """The length of a message from its first 8 bytes; ValueError above `LARGEST`."""
    length = int.from_bytes(first, "little")
    if length > LARGEST:
        raise ValueError(f"a message of {length:,} bytes: at most {LARGEST:,} are allowed")
    return length


def parse(body: bytes | memoryview) -> tuple[dict[str, Any], list[Array]]:
    """Header and arrays of a message without its length; ValueError if it is damaged."""
    try:
        end = 4 + int.from_bytes(body[:4], "little")
        if end > LARGEST_HEADER:
            raise ValueError(f"a header of {end:,} bytes: at most {LARGEST_HEADER:,} are allowed")
        header = json.loads(bytes(body[4:end]))
        arrays = []
        for dtype, shape in header.pop("arrays"):
            if dtype not in _DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
                raise ValueError(f"an array of {dtype!r} and shape {shape!r}")
            count = math.prod(shape)
            start, end = end, end + count * np.dtype(dtype).itemsize
            arrays.append(np.frombuffer(body[start:end], dtype, count).reshape(shape).copy())
        if end != len(body) or not isinstance(header, dict):
            raise ValueError(f"{len(body)} bytes, {end} expected")
    except Exception as error:  # whatever a forged header holds
        raise ValueError(f"damaged message: {error}") from None
    return header, arrays
