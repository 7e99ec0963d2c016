"""The files of published data sets: find them, download them, read their formats.

Not here: tensors and their scaling (datasets.py). You can skip this file at first reading.
"""

import gzip
import math
import os
import shutil
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

__all__ = ["DataNotFoundError", "without_downloads"]


class DataNotFoundError(FileNotFoundError):
    """No usable copy of a data set: it is not on this machine, and no mirror delivered it."""


class _Source(NamedTuple):
    mirrors: tuple[str, ...]  # tried in this order
    checksums: dict[str, str]  # file name -> sum of the file as downloaded


# The sums are those of torchvision (datasets/mnist.py), of the Fashion-MNIST README, of the
# CIFAR-10 home page and of TensorFlow Federated (simulation/datasets/emnist.py).
_SOURCES = {
    "mnist": _Source(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
    "fashion_mnist": _Source(
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
    "cifar10": _Source(
        ("https://www.cs.toronto.edu/~kriz/",),
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    ),
    "tinyshakespeare": _Source(
        ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",),
        {
            "input.txt": (
                "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
            ),
        },
    ),
    "emnist": _Source(
        ("https://storage.googleapis.com/tff-datasets-public/",),
        {
            "fed_emnist_digitsonly.tar.bz2": (
                "sha256:55333deb8546765427c385710ca5e7301e16f4ed8b60c1dc5ae224b42bd5b14b"
            ),
            "fed_emnist.tar.bz2": (
                "sha256:fe1ed5a502cea3a952eb105920bff8cffb32836b5173cb18a57a32c3606f3ea0"
            ),
        },
    ),
}

_TIMEOUT = 30  # seconds to wait for the next byte from a mirror
_may_download: ContextVar[bool] = ContextVar("may_download", default=True)


@contextmanager
def without_downloads() -> Iterator[None]:
    """Inside this context, a file that is not on this machine is a DataNotFoundError at once.

    >>> with without_downloads():
    ...     fetch("mnist", "a-file-that-nobody-has")
    Traceback (most recent call last):
    fltoolkit.data.files.DataNotFoundError: mnist: its files are not on this machine
    """
    token = _may_download.set(False)
    try:
        yield
    finally:
        _may_download.reset(token)


def fetch(name: str, filename: str, *variants: str) -> Path:
    """The first local copy of a file; if there is none, a download, whose checksum is checked.

    The function looks in ``$FLTOOLKIT_DATA/<name>``, in ``$FLTOOLKIT_DATA`` and in the cache
    folder, for ``filename`` and then for its ``variants`` (such as the uncompressed file). The
    checksum of local files is not compared, since somebody put them there on purpose. Raises
    DataNotFoundError.
    """
    return _find(name, filename, *variants) or _download(name, filename)


def fetch_unpacked(name: str, archive: str, filenames: list[str], subfolder: str = "") -> Path:
    """The folder with these files of an archive; unpacked once, into the cache."""
    first = filenames[0]
    if path := _find(name, str(Path(subfolder, first)), first):
        return path.parent
    path, folder = fetch(name, archive), _cache_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    with (
        damage_reported(path, f"a tar archive with {', '.join(filenames)}"),
        tempfile.TemporaryDirectory(dir=folder) as scratch,  # no half-written file in the cache
        tarfile.open(path) as tar,
    ):
        for member in tar:
            base = PurePosixPath(member.name).name  # without the folders that the archive names
            if base in filenames and (content := tar.extractfile(member)):
                with open(Path(scratch, base), "wb") as file:
                    shutil.copyfileobj(content, file)
        if missing := set(filenames) - set(os.listdir(scratch)):
            raise tarfile.TarError(f"no {', '.join(sorted(missing))} in it")
        for filename in reversed(filenames):  # the first one last, because `fetch` looks for it
            os.replace(Path(scratch, filename), folder / filename)
    return folder


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


def read_cifar(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read CIFAR-10 binary: records of a label and 3,072 pixels (red, green, blue planes)."""
    with damage_reported(path, "a file of the binary version of CIFAR-10"):
        raw = path.read_bytes()
    if not raw or len(raw) % 3073:
        raise ValueError(f"{path} holds {len(raw)} bytes: expected records of 3,073 bytes")
    records = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


@contextmanager
def damage_reported(path: Path, expected: str) -> Iterator[None]:
    """Replace errors that a damaged file causes by a ValueError that names the file."""
    try:
        yield
    except (OSError, EOFError, KeyError, zlib.error, tarfile.TarError) as error:
        raise ValueError(
            f"{path} cannot be read: {error}. Expected {expected}. Delete the file and get it "
            "again; a file that is missing from the cache folder is downloaded."
        ) from error


def _cache_folder() -> Path:
    import pooch

    return Path(pooch.os_cache("fltoolkit"))


def _folders(name: str) -> Iterator[Path]:
    if root := os.environ.get("FLTOOLKIT_DATA"):
        yield Path(root).expanduser() / name
        yield Path(root).expanduser()
    yield _cache_folder() / name


def _find(name: str, *filenames: str) -> Path | None:
    candidates = (folder / filename for folder in _folders(name) for filename in filenames)
    return next((path for path in candidates if path.is_file()), None)


def _download(name: str, filename: str) -> Path:
    if not _may_download.get():
        raise DataNotFoundError(f"{name}: its files are not on this machine")
    import pooch

    source, cache, failures = _SOURCES[name], _cache_folder() / name, ""
    downloader = pooch.HTTPDownloader(progressbar=True, timeout=_TIMEOUT, chunk_size=2**16)
    for mirror in source.mirrors:
        url, checksum = mirror + filename, source.checksums[filename]
        try:  # pooch writes to a temporary file and moves it only when the checksum is right
            return Path(pooch.retrieve(url, checksum, filename, cache, downloader=downloader))
        except (OSError, ValueError) as error:  # no connection or a bad status; wrong checksum
            failures += f"\n  {url}: {error}"
    root = os.environ.get("FLTOOLKIT_DATA")
    nowhere = root and not Path(root).expanduser().is_dir()
    raise DataNotFoundError(
        (f"FLTOOLKIT_DATA is {root!r}, and there is no such folder. " if nowhere else "")
        + f"{name}: found no {filename} in {', '.join(map(str, _folders(name)))}, and no mirror "
        f"delivered it:{failures}\n"
        f"Three ways out, for {', '.join(source.checksums)}:\n"
        "  1. put the files in a folder and set the environment variable FLTOOLKIT_DATA to it;\n"
        f"  2. put them in the cache folder {cache};\n"
        "  3. connect to the internet and call again: they are downloaded once.\n"
        'Or use load("digits"), which needs no files.'
    )
