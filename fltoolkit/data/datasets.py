"""Data sets as tensors: digits, MNIST and its relatives, CIFAR-10, and EMNIST by writer.

Not here: who has which samples (partitions.py), batches (batches.py), models, and the picture of a
partition (`fltoolkit.plots.partition`).
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

from fltoolkit.arrays import Array
from fltoolkit.data.files import (
    damage_reported,
    fetch,
    fetch_unpacked,
    read_cifar,
    read_idx,
)

PIXEL_STATISTICS = {
    "digits": ((0.3053,), (0.3761,)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
"""Mean and standard deviation of the training pixels in [0, 1], one number per channel."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test samples in memory. `load` gives x as float32 and y as class numbers.

    Images are [samples, channels, height, width]; `flat` gives [samples, features]. For data of
    your own, call ``Dataset(...)`` with your tensors. Inputs may be integers (the tokens of a
    text). Targets may be numbers, or there may be several for each sample. ``owners`` says whose
    each training sample is, by a number or a name for each.

    >>> x, y = torch.zeros(3, 4), torch.tensor([0, 1, 0])
    >>> Dataset(x, y, x, y, num_classes=2, owners=["ben", "ann", "ben"]).owners
    tensor([1, 0, 1])
    """

    x_train: Shaped[Tensor, " train *shape"]
    y_train: Shaped[Tensor, " train *target"]
    x_test: Shaped[Tensor, " test *shape"]
    y_test: Shaped[Tensor, " test *target"]
    num_classes: int = 0  # 0: the targets are not classes
    name: str = "own data"
    owners: Any = None  # whose each training sample is; kept as a tensor of numbers

    def __post_init__(self) -> None:
        if self.owners is None:
            return
        owners = self.owners.tolist() if isinstance(self.owners, Tensor) else [*self.owners]
        if len(owners) != len(self.y_train):
            raise ValueError(
                f"{len(owners)} owners for {len(self.y_train)} training samples: give one each"
            )
        for row, owner in enumerate(owners):
            if owner is None or owner != owner:  # NaN, as a table has it for an empty cell
                raise ValueError(
                    f"training sample {row} has the owner {owner}: give each a number or a name"
                )
        if not isinstance(self.owners, Tensor):
            _, numbers = np.unique(np.asarray(owners), return_inverse=True)
            object.__setattr__(self, "owners", torch.from_numpy(numbers))

    @classmethod
    def of_owners(
        cls,
        owners: Mapping[str, tuple[Tensor, Tensor]],
        x_test: Tensor,
        y_test: Tensor,
        num_classes: int = 0,
        name: str = "own data",
    ) -> "Dataset":
        """The samples of people, writers or roles, given by name; owner k is the k-th of them.

        `load_emnist_federated` and `Text.roles` return such samples. With
        ``Experiment(partition="owners")`` each client gets all samples of some owners.

        >>> one, two = (torch.zeros(3, 4), torch.zeros(3)), (torch.ones(2, 4), torch.ones(2))
        >>> Dataset.of_owners({"ann": one, "ben": two}, *two).owners
        tensor([0, 0, 0, 1, 1])
        """
        xs, ys = zip(*owners.values(), strict=True)
        numbers = torch.arange(len(ys)).repeat_interleave(torch.tensor([len(y) for y in ys]))
        return cls(torch.cat(xs), torch.cat(ys), x_test, y_test, num_classes, name, numbers)

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

    Pixels are standardized: over the training set, their mean is about 0 and their standard
    deviation about 1, by fixed constants for each channel (`PIXEL_STATISTICS`). "digits" comes with
    scikit-learn and needs no file and no network: 1,797 images of 8×8, split by class into 1,437
    and 360, always in the same way.

    The files of the other data sets are looked for in ``$FLTOOLKIT_DATA/<name>``, in
    ``$FLTOOLKIT_DATA`` and in the user cache. If they are not there, they are downloaded into the
    cache (CIFAR-10 in its binary version). A download must have the published checksum, and a local
    file the right structure.

    Raises DataNotFoundError if there is no local copy and no mirror can be reached, and ValueError
    if the name is unknown or a file is damaged.

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

    It is the federated split of LEAF (Caldas et al. 2018, arXiv 1812.01097) in TensorFlow
    Federated's HDF5 files: 3,383 writers with 341,873 training and 40,832 test digits (1.1 GB of
    memory; ``max_clients`` limits it) or, with ``only_digits=False``, 3,400 writers and 62 classes.
    x is in [0, 1] as published: ink is dark, which is the inverse of MNIST. The files
    ``fed_emnist_digitsonly_train.h5`` and so on, or the archive ``fed_emnist_digitsonly.tar.bz2``,
    are looked for as in `load`, under the name "emnist".
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
    pixels, labels = _digits_of_sklearn()
    x = _standardize(pixels.reshape(-1, 1, 8, 8) / 16, "digits")
    y = torch.from_numpy(labels)
    train, test = map(torch.from_numpy, _stratified(labels, 360))
    return Dataset(x[train], y[train], x[test], y[test], num_classes=10, name="digits")


def _digits_of_sklearn() -> tuple[Array, Array]:
    """The 1,797 images and their labels, out of scikit-learn's file.

    Without importing scikit-learn where that can be avoided: with SciPy and pandas it takes two
    seconds, and several more after an installation, which a reader's first plot would wait for.
    """
    package = Path(getattr(find_spec("sklearn"), "origin", None) or "")
    file = package.parent / "datasets" / "data" / "digits.csv.gz"
    if not file.exists():  # another version keeps it elsewhere
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        return pixels, labels.astype(np.int64)
    table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


def _stratified(labels: Array, num_test: int) -> tuple[Array, Array]:
    """The places of training and test samples, each class in proportion.

    They are those of scikit-learn's ``train_test_split(..., stratify=labels, random_state=0)``, as
    a test holds: all stored results were made with them.
    """
    rng, counts = np.random.RandomState(0), np.bincount(labels)
    exact = counts / len(labels) * (len(labels) - num_test)
    num_train = np.floor(exact).astype(int)
    for rest in np.unique(exact - num_train)[::-1]:  # one more to the largest remainders
        missing = len(labels) - num_test - num_train.sum()
        alike = np.flatnonzero(exact - np.floor(exact) == rest)
        num_train[rng.permutation(alike)[:missing]] += 1
        if missing <= len(alike):
            break
    each = [rng.permutation(np.flatnonzero(labels == label)) for label in range(len(counts))]
    train = [places[:n] for places, n in zip(each, num_train, strict=True)]
    test = [places[n:] for places, n in zip(each, num_train, strict=True)]
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))


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
    """Only the binary version is read: the "python version" is a pickle, which can run code."""
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
