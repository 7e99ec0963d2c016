"""CIFAR-10 from its published archive: the audit trains on it."""

import tarfile
from pathlib import PurePosixPath

import numpy as np
import torch

from fltoolkit.data.datasets import Samples, class_numbers, standardize
from fltoolkit.data.files import Source, damage_reported

ARCHIVE = "cifar-10-binary.tar.gz"
CIFAR10 = Source(  # the sum is that of TensorFlow Datasets (url_checksums/cifar10.txt)
    "cifar10",
    ("https://www.cs.toronto.edu/~kriz/",),
    {ARCHIVE: "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
)
FILENAMES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]


def load_cifar10() -> Samples:
    """Load CIFAR-10 in its binary version, standardized; its archive is looked for as others are.

    Its "python version" is not read: it is a pickle, which can run code.
    """
    archive, found = CIFAR10.fetch(ARCHIVE), {}
    with damage_reported(archive, f"a tar archive with {', '.join(FILENAMES)}"):
        try:
            with tarfile.open(archive) as tar:  # nothing is unpacked
                for member in tar:
                    base = PurePosixPath(member.name).name
                    if base in FILENAMES and (content := tar.extractfile(member)):
                        found[base] = content.read()
        except tarfile.TarError as error:
            raise OSError(str(error)) from error
        if missing := set(FILENAMES) - set(found):
            raise OSError(f"no {', '.join(sorted(missing))} in it")
    batches = [records_of(name, found[name]) for name in FILENAMES]
    x = [standardize(images / np.float32(255), "cifar10") for images, _ in batches]
    y = [class_numbers(labels, 10, archive) for _, labels in batches]
    return Samples(torch.cat(x[:5]), torch.cat(y[:5]), x[5], y[5], num_classes=10, name="cifar10")


def records_of(name: str, raw: bytes) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10 binary: records of a label and 3,072 pixels (red, green, blue planes)."""
    if not raw or len(raw) % 3073:
        raise ValueError(f"{name} holds {len(raw)} bytes: expected records of 3,073 bytes")
    records = np.frombuffer(raw, np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
