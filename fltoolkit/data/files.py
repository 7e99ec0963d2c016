"""The files of published data sets: find them, download them, read those of MNIST's form.

Not here: tensors and their scaling (datasets.py). You can skip this file at first reading.
"""

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

__all__ = ["DataNotFoundError", "Source", "without_downloads"]

_TIMEOUT = 30  # seconds to wait for the next byte from a mirror
_may_download: ContextVar[bool] = ContextVar("may_download", default=True)


class DataNotFoundError(FileNotFoundError):
    """No usable copy of a data set: it is not on this machine, and no mirror delivered it."""


@contextmanager
def without_downloads() -> Iterator[None]:
    """Inside this context, a file that is not on this machine is a DataNotFoundError at once.

    >>> with without_downloads():
    ...     Source("mnist", (), {}).fetch("a-file-that-nobody-has")
    Traceback (most recent call last):
    fltoolkit.data.files.DataNotFoundError: mnist: its files are not on this machine
    """
    token = _may_download.set(False)
    try:
        yield
    finally:
        _may_download.reset(token)


@dataclass(frozen=True)
class Source:
    """Where the files of a data set are published."""

    name: str
    mirrors: tuple[str, ...]  # tried in this order
    checksums: Mapping[str, str]  # file name -> sum of the file as downloaded

    def fetch(self, filename: str, *variants: str) -> Path:
        """The first local copy of a file; if there is none, a download, whose checksum is checked.

        The function looks in ``$FLTOOLKIT_DATA/<name>``, in ``$FLTOOLKIT_DATA`` and in the cache
        folder, for ``filename`` and then for its ``variants`` (such as the uncompressed file). The
        checksum of local files is not compared, since somebody put them there on purpose. Raises
        DataNotFoundError.
        """
        candidates = (folder / name for folder in self._folders() for name in (filename, *variants))
        local = next((path for path in candidates if path.is_file()), None)
        return local or self._download(filename)

    def _folders(self) -> Iterator[Path]:
        if root := os.environ.get("FLTOOLKIT_DATA"):
            yield Path(root).expanduser() / self.name
            yield Path(root).expanduser()
        yield cache_folder() / self.name

    def _download(self, filename: str) -> Path:
        if not _may_download.get():
            raise DataNotFoundError(f"{self.name}: its files are not on this machine")
        import pooch

        cache, failures = cache_folder() / self.name, ""
        bar = find_spec("tqdm") is not None  # which pooch needs for its progress bar
        downloader = pooch.HTTPDownloader(progressbar=bar, timeout=_TIMEOUT, chunk_size=2**16)
        for mirror in self.mirrors:
            url, checksum = mirror + filename, self.checksums[filename]
            try:  # pooch writes to a temporary file and moves it only when the checksum is right
                return Path(pooch.retrieve(url, checksum, filename, cache, downloader=downloader))
            except (OSError, ValueError) as error:  # no connection or a bad status; wrong checksum
                failures += f"\n  {url}: {error}"
        root = os.environ.get("FLTOOLKIT_DATA")
        nowhere = root and not Path(root).expanduser().is_dir()
        raise DataNotFoundError(
            (f"FLTOOLKIT_DATA is {root!r}, and there is no such folder. " if nowhere else "")
            + f"{self.name}: found no {filename} in {', '.join(map(str, self._folders()))}, and no "
            f"mirror delivered it:{failures}\n"
            f"Three ways out, for {', '.join(self.checksums)}:\n"
            "  1. put the files in a folder, and set the variable FLTOOLKIT_DATA to this folder;\n"
            f"  2. put them in the cache folder {cache};\n"
            "  3. connect to the internet and call again: they are downloaded once.\n"
            'Or use load("digits"), which needs no files.'
        )


def cache_folder() -> Path:
    """Where downloads are kept."""
    import pooch

    return Path(pooch.os_cache("fltoolkit"))


def read_idx(path: Path, *, num_dims: int) -> np.ndarray:
    """Read an IDX file of uint8, plain or gzip-compressed.

    Layout: the bytes 0, 0, 8 (for uint8) and num_dims, the sizes as big-endian u32, the data.
    Raises ValueError for a damaged file.
    """
    expected = f"an IDX file of uint8 in {num_dims} dimension(s), plain or gzip-compressed"
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":  # by content: browsers may unpack a file and keep its name
        with damage_reported(path, expected):
            raw = gzip.decompress(raw)
    start = 4 + 4 * num_dims
    if raw[:4] != bytes([0, 0, 8, num_dims]) or len(raw) < start:
        raise ValueError(f"{path} begins with the bytes {list(raw[:4])}: expected {expected}")
    sizes = struct.unpack(f">{num_dims}I", raw[4:start])
    if len(raw) - start != math.prod(sizes) or not math.prod(sizes):
        raise ValueError(
            f"{path} holds {len(raw) - start} bytes of data, its header says {list(sizes)}: it is "
            "empty, incomplete or damaged. Delete it and get it again."
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(sizes)


@contextmanager
def damage_reported(path: Path, expected: str) -> Iterator[None]:
    """Replace errors that a damaged file causes by a ValueError that names the file."""
    try:
        yield
    except (OSError, EOFError, KeyError, zlib.error) as error:
        raise ValueError(
            f"{path} cannot be read: {error}. Expected {expected}. Delete the file and get it "
            "again; a file that is missing from the cache folder is downloaded."
        ) from error
