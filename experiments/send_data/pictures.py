"""Pictures as bytes: CIFAR-10's JPEG copies as one message, as they are or made smaller.

All files of one quality begin with the same bytes (tables and sizes), so a message holds these
once, then what is left of each file, and the labels in four bits each. The receiver trains on
what it decodes from that message.
"""

import random
import tarfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fltoolkit.data.files import Source

LABELS = [
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
]
ARCHIVE = "images.tar.xz"
CACHE = Path("runs") / "send_data"
SIDE = 32


class Form(NamedTuple):
    """How a picture is sent: so many pixels a side, JPEG quality; None: the file as it is."""

    side: int = SIDE
    quality: int | None = None

    def __str__(self) -> str:
        return "as they are" if self.quality is None else f"{self.side} px, quality {self.quality}"


class Pictures(NamedTuple):
    """What a receiver holds, and how many bytes each picture took."""

    x_train: Tensor  # uint8, [samples, 3, 32, 32], as decoded from what was sent
    y_train: Tensor
    x_test: Tensor  # always of the files as they are
    y_test: Tensor
    nbytes_each: Tensor  # of a training picture without the part that all share
    nbytes_shared: int

    def nbytes(self, rows: Tensor) -> int:
        """Length of the message with these training pictures and their labels (`message`)."""
        return self.nbytes_shared + int(self.nbytes_each[rows].sum()) + (len(rows) + 1) // 2


def message(files: list[bytes], labels: list[int]) -> bytes:
    """JPEG files that begin alike, and their labels, as one string of bytes."""
    shared = files[0][: _header(files[0])]
    if not all(file.startswith(shared) for file in files):
        raise ValueError("the files do not begin alike: send pictures of one size and quality")
    nibbles = [*labels, 0]
    packed = bytes(a << 4 | b for a, b in zip(nibbles[::2], nibbles[1::2], strict=False))
    return shared + b"".join(file[len(shared) :] for file in files) + packed


def _header(file: bytes) -> int:
    """Where the entropy-coded part of a JPEG file begins: after the header of its scan (SOS)."""
    start = file.index(b"\xff\xda")
    return start + 2 + int.from_bytes(file[start + 2 : start + 4], "big")


def pictures(form: Form, jobs: int = 1) -> Pictures:
    """All of CIFAR-10 (JPEG copies) in a form; made once and kept as a file of the cache."""
    name = "original" if form.quality is None else f"{form.side}_{form.quality}"
    path = CACHE / f"cifar10_jpeg_{name}.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        made, part = _made(form, jobs), path.with_suffix(".part.npz")
        np.savez(part, allow_pickle=False, **made)
        part.replace(path)
    with np.load(path) as file:
        shared = int(file["nbytes_shared"])
        names = ("x_train", "y_train", "x_test", "y_test", "nbytes_each")
        x_train, y_train, x_test, y_test, each = (torch.from_numpy(file[name]) for name in names)
    return Pictures(x_train, y_train, x_test, y_test, each, shared)


def _made(form: Form, jobs: int) -> dict[str, np.ndarray]:
    found: dict[str, list[tuple[bytes, int]]] = {"train": [], "test": []}
    with tarfile.open(Source("cifar10_jpeg", (), {ARCHIVE: ""}).fetch(ARCHIVE)) as tar:
        for member in tar:
            part, label, _ = member.name.split("/")
            content = tar.extractfile(member)
            if content is not None:
                found[part].append((content.read(), LABELS.index(label)))
    for some in found.values():
        random.Random(0).shuffle(some)  # they come class by class
    train, test = ([file for file, _ in some] for some in found.values())
    y_train, y_test = (np.array([label for _, label in some]) for some in found.values())
    with ProcessPoolExecutor(jobs) as pool:
        if form.quality is not None:
            train = list(pool.map(partial(smaller, form=form), train, chunksize=1000))
        x_train, x_test = (
            np.stack(list(pool.map(pixels, files, chunksize=1000))) for files in (train, test)
        )
    start = _header(train[0])
    return {
        "x_train": x_train,
        "y_train": y_train,
        "x_test": x_test,
        "y_test": y_test,
        "nbytes_each": np.array([len(file) - start for file in train]),
        "nbytes_shared": np.array(start),
    }


def smaller(file: bytes, form: Form) -> bytes:
    """The picture with fewer pixels and of lower quality, as a JPEG file."""
    from PIL import Image

    image, out = Image.open(BytesIO(file)).convert("RGB"), BytesIO()
    if form.side != SIDE:
        image = image.resize((form.side, form.side), Image.Resampling.LANCZOS)
    image.save(out, "JPEG", quality=form.quality)
    return out.getvalue()


def pixels(file: bytes) -> np.ndarray:
    """uint8 [3, 32, 32] of a JPEG file; a smaller picture is made larger by its receiver."""
    from PIL import Image

    image = Image.open(BytesIO(file)).convert("RGB")
    if image.size != (SIDE, SIDE):
        image = image.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.asarray(image).transpose(2, 0, 1)


def shares(num_samples: int, num_owners: int, seed: int) -> list[Tensor]:
    """Which samples each owner holds: equal shares of a random order."""
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed))
    size = num_samples // num_owners
    return list(order[: size * num_owners].split(size))
