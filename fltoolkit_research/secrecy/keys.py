"""Keys that two clients agree on over a server that sees their messages; what keys are used for.

All of it is done by the package ``cryptography``: X25519 (RFC 7748), HKDF with SHA-256 (RFC 5869),
ChaCha20 (RFC 8439) as generator, AES-GCM for envelopes.
"""

import hashlib
import importlib
import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

NBYTES_KEY = 32

Integers = NDArray[Any]
Random = Callable[[int], bytes]
"""``random(nbytes)``: so many random bytes."""


def random_source(seed: int | None, *what: object) -> Random:
    """The operating system's random bytes; or, with a seed, bytes that can be made again.

    Whoever knows the seed knows every key. ``what`` names the owner, so that no two get the same.
    """
    if seed is None:
        return os.urandom
    number = itertools.count()

    def repeated(nbytes: int) -> bytes:
        key = repr((seed, *what, next(number))).encode()
        return hashlib.shake_256(key).digest(nbytes)

    return repeated


class KeyPair:
    """A private key of X25519 and its public half; a pair of clients can agree on keys."""

    def __init__(self, private: bytes):
        x25519 = _cryptography("hazmat.primitives.asymmetric.x25519")
        self.private = private
        self._key = x25519.X25519PrivateKey.from_private_bytes(private)
        self.public: bytes = self._key.public_key().public_bytes_raw()
        self._agreed: dict[bytes, bytes] = {}  # with each public key, before HKDF

    def agree(self, public: bytes, purpose: bytes) -> bytes:
        """32 bytes that only the owners of these two keys can compute: Diffie-Hellman, then HKDF.

        Keys for two purposes are independent of each other. Raises ValueError for a public key of
        another length, or for one whose secret would be zero.
        """
        x25519 = _cryptography("hazmat.primitives.asymmetric.x25519")
        hashes = _cryptography("hazmat.primitives.hashes")
        hkdf = _cryptography("hazmat.primitives.kdf.hkdf")
        if public not in self._agreed:
            theirs = x25519.X25519PublicKey.from_public_bytes(public)
            self._agreed[public] = self._key.exchange(theirs)
        derive = hkdf.HKDF(hashes.SHA256(), NBYTES_KEY, salt=None, info=b"fltoolkit " + purpose)
        return bytes(derive.derive(self._agreed[public]))


def stream(key: bytes, count: int, dtype: Any) -> Integers:
    """``count`` unsigned integers of this dtype, uniform and independent, from a key of 32 bytes.

    They are the keystream of ChaCha20, little-endian. A key makes one stream: use it once.

    >>> stream(bytes(32), 4, np.uint8).tolist()  # RFC 8439, appendix A.1, the first test vector
    [118, 184, 224, 173]
    """
    ciphers = _cryptography("hazmat.primitives.ciphers")
    chacha = ciphers.algorithms.ChaCha20(key, bytes(16))
    zeros = bytes(count * np.dtype(dtype).itemsize)
    return np.frombuffer(ciphers.Cipher(chacha, mode=None).encryptor().update(zeros), dtype)


def seal(key: bytes, content: bytes, context: bytes) -> bytes:
    """The content, encrypted and authenticated together with a context that is not sent: AES-GCM.

    The nonce is zero, so a key may seal one message only.
    """
    aead = _cryptography("hazmat.primitives.ciphers.aead")
    return bytes(aead.AESGCM(key).encrypt(bytes(12), content, context))


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """The content. Raises ValueError if it was changed, or sealed with another key or context."""
    aead = _cryptography("hazmat.primitives.ciphers.aead")
    try:
        return bytes(aead.AESGCM(key).decrypt(bytes(12), sealed, context))
    except _cryptography("exceptions").InvalidTag:
        raise ValueError(
            "a sealed message does not open: it was changed on the way, or sealed for another one"
        ) from None


def _cryptography(module: str) -> Any:
    """A module of the package ``cryptography``, an extra that is imported when it is used."""
    try:
        return importlib.import_module(f"cryptography.{module}")
    except ImportError as error:
        raise ImportError(
            'secure sums need cryptography: pip install "fltoolkit[secrecy]", or '
            "pip install cryptography"
        ) from error
