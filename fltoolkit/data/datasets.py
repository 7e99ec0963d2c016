"""Data sets as tensors, ways to deal them out to clients, and batches in a reproducible order.

Not here: models, and the plot of who holds what (`fltoolkit.plots.partition`).
"""

import hashlib
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from fltoolkit.data._files import (
    DataNotFoundError,
    damage_reported,
    fetch,
    fetch_unpacked,
    read_cifar,
    read_idx,
)

__all__ = ["DataNotFoundError", "Dataset", "load", "load_emnist_federated"]

# ---- Data sets ----------------------------------------------------------------------------------

PIXEL_STATISTICS = {
    "digits": ((0.3053,), (0.3761,)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
"""Mean and standard deviation of the training pixels in [0, 1], one number a channel."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test samples in memory; those that `load` gives: x float32, y class numbers.

    Images are [samples, channels, height, width]; `flat` gives [samples, features]. For data of
    your own, call ``Dataset(...)`` with your tensors: nothing else in the package looks at files.
    Inputs may be integers (the tokens of a text), and targets numbers, or several a sample; then
    leave ``num_classes`` out where there are no classes.
    """

    x_train: Shaped[Tensor, " train *shape"]
    y_train: Shaped[Tensor, " train *target"]
    x_test: Shaped[Tensor, " test *shape"]
    y_test: Shaped[Tensor, " test *target"]
    num_classes: int = 0  # 0: the targets are no classes
    name: str = "own data"

    def flat(self) -> "Dataset":
        """The same samples (the same memory) with x as [samples, features].

        >>> load("digits").flat().x_train.shape
        torch.Size([1437, 64])
        """
        return replace(self, x_train=self.x_train.flatten(1), x_test=self.x_test.flatten(1))

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.x_train.shape[1:]))
        return (
            f"Dataset({self.name}: {len(self.y_train):,} train, {len(self.y_test):,} test, "
            f"x {shape}" + (f", {self.num_classes} classes)" if self.num_classes else ")")
        )


def load(name: str) -> Dataset:
    """Load "digits", "mnist", "fashion_mnist" or "cifar10" with its published train/test split.

    Pixels are standardized: about mean 0 and standard deviation 1 over the training set, by fixed
    constants per channel (`PIXEL_STATISTICS`). "digits" comes with scikit-learn (1,797 images of
    8×8, split here into 1,437 and 360 by class, always the same way): no file, no network.

    The other files are looked for in ``$FLTOOLKIT_DATA/<name>``, in ``$FLTOOLKIT_DATA``, in the
    user cache, and then downloaded there (CIFAR-10 in its binary version). Downloads must match
    the published checksum; files found locally are checked for structure (format, length,
    counts, labels), and MNIST and Fashion-MNIST, which share their file names, are told apart
    by the MD5 of the training labels.

    Raises:
        DataNotFoundError: no local copy and no mirror in reach; the text names the ways out.
        ValueError: unknown name, or a damaged file.

    >>> load("digits")
    Dataset(digits: 1,437 train, 360 test, x 1×8×8, 10 classes)
    """
    if name == "digits":
        return _load_digits()
    if name in ("mnist", "fashion_mnist"):
        train, test = _idx_split(name, "train"), _idx_split(name, "t10k")
        return Dataset(*train, *test, num_classes=10, name=name)
    if name == "cifar10":
        return _load_cifar10()
    raise ValueError(
        f'unknown data set {name!r}: choose "digits", "mnist", "fashion_mnist" or "cifar10". '
        "For the federated EMNIST call load_emnist_federated(), for texts load_text()."
    )


def load_emnist_federated(
    split: Literal["train", "test"] = "train",
    *,
    only_digits: bool = True,
    max_clients: int | None = None,
) -> dict[str, tuple[Float32[Tensor, "_ 1 28 28"], Int64[Tensor, " _"]]]:
    """Load EMNIST split by writer: client id -> (x, y), ids in sorted order.

    The federated split of LEAF (Caldas et al. 2018, arXiv 1812.01097) in TensorFlow Federated's
    HDF5 files: 3,383 writers with 341,873 training and 40,832 test digits or, with
    ``only_digits=False``, 3,400 writers and 62 classes. x is in [0, 1] as published: the
    paper is bright (1) and the ink is dark, the inverse of MNIST. All digits take 1.1 GB of
    memory: pass ``max_clients``. ``fed_emnist_digitsonly_train.h5`` (and so on), or the archive
    ``fed_emnist_digitsonly.tar.bz2``, is looked for as in `load`, under the name "emnist".
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
    path = fetch_unpacked("emnist", f"{prefix}.tar.bz2", [filename]) / filename
    expected = "an HDF5 file with examples/<client>/pixels and examples/<client>/label"
    clients = {}
    with damage_reported(path, expected), h5py.File(path, "r") as file:
        for client in sorted(file["examples"])[:max_clients]:
            pixels, labels = (file["examples"][client][key][:] for key in ("pixels", "label"))
            x = torch.from_numpy(pixels).float().reshape(-1, 1, 28, 28)
            clients[client] = x, _class_numbers(labels.reshape(-1), num_classes, path)
    return clients


def _load_digits() -> Dataset:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(pixels, labels, test_size=360, stratify=labels, random_state=0)
    x_train, x_test = (_standardize(x.reshape(-1, 1, 8, 8) / 16, "digits") for x in parts[:2])
    y_train, y_test = (torch.from_numpy(y).long() for y in parts[2:])
    return Dataset(x_train, y_train, x_test, y_test, num_classes=10, name="digits")


_MNIST_LABELS = "a25bea736e30d166cdddb491f175f624"  # MD5 of the decompressed training labels


def _idx_split(name: str, prefix: str) -> tuple[Tensor, Tensor]:
    image_path, label_path = (
        fetch(name, f"{prefix}-{kind}.gz", f"{prefix}-{kind}")
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    images, labels = read_idx(image_path, num_dims=3), read_idx(label_path, num_dims=1)
    if len(images) != len(labels):
        raise ValueError(
            f"{image_path} holds {len(images)} images but {label_path} {len(labels)} labels: "
            "they must be a pair. Replace the one that does not belong."
        )
    if prefix == "train" and len(labels) == 60_000:
        header = struct.pack(">II", 0x801, len(labels))
        md5 = hashlib.md5(header + labels.tobytes(), usedforsecurity=False)
        is_mnist = md5.hexdigest() == _MNIST_LABELS
        if is_mnist != (name == "mnist"):
            raise ValueError(
                f"{label_path} {'is' if is_mnist else 'is not'} MNIST's, but {name!r} was asked "
                "for. Keep each data set in a folder of its own name under FLTOOLKIT_DATA; for "
                "labels of your own, build a Dataset."
            )
    x = _standardize(images[:, None] / np.float32(255), name)
    return x, _class_numbers(labels, 10, label_path)


def _load_cifar10() -> Dataset:
    """Only the binary version is read: the "python version" is a pickle, and pickles run code."""
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    folder = fetch_unpacked("cifar10", "cifar-10-binary.tar.gz", names, "cifar-10-batches-bin")
    batches = [read_cifar(folder / name) for name in names]
    x = [_standardize(images / np.float32(255), "cifar10") for images, _ in batches]
    y = [_class_numbers(labels, 10, folder) for _, labels in batches]
    return Dataset(torch.cat(x[:5]), torch.cat(y[:5]), x[5], y[5], num_classes=10, name="cifar10")


def _standardize(images: np.ndarray, name: str) -> Float32[Tensor, "_ channels height width"]:
    """Pixels in [0, 1], shape (samples, channels, height, width), to mean 0 and deviation 1."""
    mean, deviation = torch.tensor(PIXEL_STATISTICS[name])[..., None, None]
    return torch.from_numpy(images).float().sub_(mean).div_(deviation)


def _class_numbers(labels: np.ndarray, num_classes: int, path: Path) -> Int64[Tensor, " _"]:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"{path} holds labels {labels.min()} to {labels.max()}: expected 0 to "
            f"{num_classes - 1}. Is it the file of another data set?"
        )
    return torch.from_numpy(labels.astype(np.int64))


# ---- Partitions: which client holds which samples -----------------------------------------------
# Each returns one int64 tensor of indices per client; together they hold each index exactly once.


# ---- Batches ------------------------------------------------------------------------------------
