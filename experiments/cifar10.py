"""CIFAR-10 from its published archive: two experiments train on it.

Not here: the data sets of the course (`fltoolkit.data.load`).
"""

import os
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from fltoolkit.data.datasets import Samples, class_numbers, standardize
from fltoolkit.data.files import Source, cache_folder, damage_reported

CIFAR10 = Source(  # the sum is that of TensorFlow Datasets (url_checksums/cifar10.txt)
    "cifar10",
    ("https://www.cs.toronto.edu/~kriz/",),
    {
        "cifar-10-binary.tar.gz": "sha256:"
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    },
)
FILENAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]


def load_cifar10() -> Samples:
    """Load CIFAR-10 in its binary version, standardized and looked for as in `fltoolkit.data.load`.

    Its "python version" is not read: it is a pickle, which can run code.
    """
    first = FILENAMES[0]
    path = CIFAR10.find(f"cifar-10-batches-bin/{first}", first)
    folder = path.parent if path else _unpacked(CIFAR10.fetch("cifar-10-binary.tar.gz"))
    batches = [read_cifar(folder / name) for name in FILENAMES]
    x = [standardize(images / np.float32(255), "cifar10") for images, _ in batches]
    y = [class_numbers(labels, 10, folder) for _, labels in batches]
    return Samples(torch.cat(x[:5]), torch.cat(y[:5]), x[5], y[5], num_classes=10, name="cifar10")


def read_cifar(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read CIFAR-10 binary: records of a label and 3,072 pixels (red, green, blue planes)."""
    with damage_reported(path, "a file of the binary version of CIFAR-10"):
        raw = path.read_bytes()
    if not raw or len(raw) % 3073:
        raise ValueError(f"{path} holds {len(raw)} bytes: expected records of 3,073 bytes")
    records = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def _unpacked(archive: Path) -> Path:
    """The folder in the cache with the files of the archive, whatever its folders are called."""
    folder = cache_folder() / CIFAR10.name
    folder.mkdir(parents=True, exist_ok=True)
    with (
        damage_reported(archive, f"a tar archive with {', '.join(FILENAMES)}"),
        tempfile.TemporaryDirectory(dir=folder) as scratch,  # no half-written file in the cache
    ):
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    base = PurePosixPath(member.name).name
                    if base in FILENAMES and (content := tar.extractfile(member)):
                        with open(Path(scratch, base), "wb") as file:
                            shutil.copyfileobj(content, file)
        except tarfile.TarError as error:
            raise OSError(str(error)) from error
        if missing := set(FILENAMES) - set(os.listdir(scratch)):
            raise OSError(f"no {', '.join(sorted(missing))} in it")
        for filename in reversed(FILENAMES):  # the first one last, because it is looked for
            os.replace(Path(scratch, filename), folder / filename)
    return folder
