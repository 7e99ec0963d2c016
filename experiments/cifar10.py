"""CIFAR-10, and EMNIST by writer: data sets that are published as archives.

Not here: those of the course (`fltoolkit.data.load`), and texts (text.py).
"""

import os
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fltoolkit.data.datasets import Dataset, class_numbers, standardize
from fltoolkit.data.files import Source, cache_folder, damage_reported
from fltoolkit.shapes import Float32, Int64

# The sums are those of the CIFAR-10 home page and of TensorFlow Federated.
CIFAR10 = Source(
    "cifar10",
    ("https://www.cs.toronto.edu/~kriz/",),
    {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
)
EMNIST = Source(
    "emnist",
    ("https://storage.googleapis.com/tff-datasets-public/",),
    {
        "fed_emnist_digitsonly.tar.bz2": (
            "sha256:55333deb8546765427c385710ca5e7301e16f4ed8b60c1dc5ae224b42bd5b14b"
        ),
        "fed_emnist.tar.bz2": (
            "sha256:fe1ed5a502cea3a952eb105920bff8cffb32836b5173cb18a57a32c3606f3ea0"
        ),
    },
)


def load_cifar10() -> Dataset:
    """Load CIFAR-10 in its binary version, standardized and looked for as in `fltoolkit.data.load`.

    Its "python version" is not read: it is a pickle, which can run code.
    """
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    folder = fetch_unpacked(CIFAR10, "cifar-10-binary.tar.gz", names, "cifar-10-batches-bin")
    batches = [read_cifar(folder / name) for name in names]
    x = [standardize(images / np.float32(255), "cifar10") for images, _ in batches]
    y = [class_numbers(labels, 10, folder) for _, labels in batches]
    return Dataset(torch.cat(x[:5]), torch.cat(y[:5]), x[5], y[5], num_classes=10, name="cifar10")


def load_emnist_federated(
    split: Literal["train", "test"] = "train",
    *,
    only_digits: bool = True,
    max_clients: int | None = None,
) -> dict[str, tuple[Float32[Tensor, "_ 1 28 28"], Int64[Tensor, " _"]]]:
    """Load EMNIST split by writer: client id -> (x, y), ids in sorted order.

    It is the federated split of LEAF (Caldas et al. 2018, arXiv 1812.01097) in TensorFlow
    Federated's HDF5 files: 3,383 writers with 341,873 training and 40,832 test digits (1.1 GB of
    memory; ``max_clients`` limits it) or, with ``only_digits=False``, 3,400 writers and 62 classes.
    x is in [0, 1] as published: ink is dark, which is the inverse of MNIST. The files
    ``fed_emnist_digitsonly_train.h5`` and so on, or the archive ``fed_emnist_digitsonly.tar.bz2``,
    are looked for as in `fltoolkit.data.load`, under the name "emnist".
    """
    if split not in ("train", "test"):
        raise ValueError(f'split={split!r}: choose "train" or "test"')
    if max_clients is not None and max_clients < 1:
        raise ValueError(f"max_clients={max_clients}: must be at least 1, or None for all")
    try:
        import h5py
    except ImportError as error:
        raise ImportError(
            'federated EMNIST needs h5py. Install it with: pip install "fltoolkit[emnist]"'
        ) from error
    prefix, num_classes = ("fed_emnist_digitsonly", 10) if only_digits else ("fed_emnist", 62)
    filename = f"{prefix}_{split}.h5"
    path = fetch_unpacked(EMNIST, f"{prefix}.tar.bz2", [filename]) / filename
    expected = "an HDF5 file with examples/<client>/pixels and examples/<client>/label"
    clients = {}
    with damage_reported(path, expected), h5py.File(path, "r") as file:
        for client in sorted(file["examples"])[:max_clients]:
            pixels, labels = (file["examples"][client][key][:] for key in ("pixels", "label"))
            x = torch.from_numpy(pixels).float().reshape(-1, 1, 28, 28)
            clients[client] = x, class_numbers(labels.reshape(-1), num_classes, path)
    return clients


def fetch_unpacked(source: Source, archive: str, filenames: list[str], subfolder: str = "") -> Path:
    """The folder with these files of an archive; unpacked once, into the cache."""
    first = filenames[0]
    if path := source.find(str(Path(subfolder, first)), first):
        return path.parent
    path, folder = source.fetch(archive), cache_folder() / source.name
    folder.mkdir(parents=True, exist_ok=True)
    expected = f"a tar archive with {', '.join(filenames)}"
    with (
        damage_reported(path, expected),
        tempfile.TemporaryDirectory(dir=folder) as scratch,  # no half-written file in the cache
    ):
        try:
            _unpack(path, filenames, Path(scratch))
        except tarfile.TarError as error:
            raise OSError(str(error)) from error
        for filename in reversed(filenames):  # the first one last, because it is looked for
            os.replace(Path(scratch, filename), folder / filename)
    return folder


def _unpack(path: Path, filenames: list[str], scratch: Path) -> None:
    """Write these files of an archive, whatever its folders are called."""
    with tarfile.open(path) as tar:
        for member in tar:
            base = PurePosixPath(member.name).name
            if base in filenames and (content := tar.extractfile(member)):
                with open(scratch / base, "wb") as file:
                    shutil.copyfileobj(content, file)
    if missing := set(filenames) - set(os.listdir(scratch)):
        raise tarfile.TarError(f"no {', '.join(sorted(missing))} in it")


def read_cifar(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read CIFAR-10 binary: records of a label and 3,072 pixels (red, green, blue planes)."""
    with damage_reported(path, "a file of the binary version of CIFAR-10"):
        raw = path.read_bytes()
    if not raw or len(raw) % 3073:
        raise ValueError(f"{path} holds {len(raw)} bytes: expected records of 3,073 bytes")
    records = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
