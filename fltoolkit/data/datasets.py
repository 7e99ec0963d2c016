"""Data sets as tensors: digits, MNIST and Fashion-MNIST."""

import hashlib
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.data.files import Source, read_idx
from fltoolkit.data.partitions import generator
from fltoolkit.shapes import Float32, Int64, Shaped

_KINDS = ("images-idx3-ubyte", "labels-idx1-ubyte")


def _source(name: str, mirror: str, other: str, *sums: str) -> Source:
    files = [f"{part}-{kind}.gz" for part in ("train", "t10k") for kind in _KINDS]
    return Source(name, (mirror, other), dict(zip(files, sums, strict=True)))


# The sums are those of TensorFlow Datasets (url_checksums/); a mirror without https comes last.
SOURCES = {
    "mnist": _source(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion_mnist": _source(
        "fashion_mnist",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "sha256:3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "sha256:a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "sha256:346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "sha256:67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
}

DIGITS = Path(__file__).with_name("digits.npz")
WRITERS_END = (130, 256, 386, 516, 646, 776, 915, 1029, 1157, 1287, 1415, 1545, 1667, 1797)
"""Where the images of each of the 14 writers of digits end, as scikit-learn's course says."""
PIXEL_STATISTICS = {
    "digits": ((0.3053,), (0.3761,)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
"""Mean and standard deviation of the training pixels in [0, 1], one number per channel."""


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Training and test samples in memory. `load` gives x as float32 and y as class numbers.

    Images are [samples, channels, height, width]; `flat` gives [samples, features]. For data of
    your own, call ``Samples(...)`` with your tensors. Inputs may be integers (the tokens of a
    text). Targets may be numbers, or there may be several for each sample.

    >>> x, y = torch.zeros(3, 4), torch.tensor([0, 1, 0])
    >>> Samples(x, y, x, y, num_classes=2)
    Samples(own data: 3 train, 3 test, x 4, 2 classes)
    """

    x_train: Shaped[Tensor, " train *shape"]
    y_train: Shaped[Tensor, " train *target"]
    x_test: Shaped[Tensor, " test *shape"]
    y_test: Shaped[Tensor, " test *target"]
    num_classes: int = 0  # 0: the targets are not classes
    name: str = "own data"
    owners: Any = None  # whose each training sample is, a number or a name for each

    def flat(self) -> "Samples":
        """The same samples (the same memory) with x as [samples, features].

        >>> load("digits").flat().x_train.shape
        torch.Size([1427, 64])
        """
        return replace(self, x_train=self.x_train.flatten(1), x_test=self.x_test.flatten(1))

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.x_train.shape[1:]))
        return (
            f"Samples({self.name}: {len(self.y_train):,} train, {len(self.y_test):,} test, "
            f"x {shape}" + (f", {self.num_classes} classes)" if self.num_classes else ")")
        )


def load(name: str, *, strangers: int | None = None) -> Samples:
    """Load "digits", "mnist" or "fashion_mnist"; the last two with their published split.

    Pixels are standardized: over the training set, their mean is about 0 and their standard
    deviation about 1, by fixed constants for each channel (`PIXEL_STATISTICS`). "digits" is part of
    this package and needs no network: 1,797 images of 8×8 that 14 people wrote; ``owners`` says who
    wrote each training image. All images of three people, drawn by the seed ``strangers`` (0 if it
    is not given), are the test, and nobody trains on them; three people are few, so average over
    several draws. "digits_known_writers" has the first split of scikit-learn, by class into 1,437
    and 360: there the same people wrote the test, and a method has 2 to 3 points more than in the
    mean of ten draws (`docs/one_sum.md`). The images are the test part of
    Alpaydin & Kaynak's Optical Recognition of Handwritten Digits (1998, UCI, doi 10.24432/C50P49,
    CC BY 4.0), in the order of scikit-learn.

    The files of the other data sets are looked for in ``$FLTOOLKIT_DATA/<name>``, in
    ``$FLTOOLKIT_DATA`` and in the user cache. If they are not there, they are downloaded into the
    cache. A download must have the published checksum, and a local file the right structure.

    Raises DataNotFoundError if there is no local copy and no mirror can be reached, and ValueError
    if the name is unknown or a file is damaged.

    >>> load("digits")
    Samples(digits: 1,427 train, 370 test, x 1×8×8, 10 classes)
    """
    if name == "digits":
        return _load_digits(name, strangers or 0)
    if name == "digits_known_writers" and strangers is None:
        return _load_digits(name, None)
    if strangers is not None:
        raise ValueError(
            f'strangers={strangers}: only "digits" can be split by its writers, not {name!r}'
        )
    if name in SOURCES:
        train, test = _idx_split(name, "train"), _idx_split(name, "t10k")
        return Samples(*train, *test, num_classes=10, name=name)
    raise ValueError(
        f'unknown data set {name!r}: choose "digits", "digits_known_writers", "mnist" or '
        '"fashion_mnist". For data of your own call Samples(...)'
    )


def _load_digits(name: str, strangers: int | None) -> Samples:
    with np.load(DIGITS) as file:  # writer by writer
        pixels, order = file["pixels"], torch.from_numpy(file["order"].astype(np.int64))
        y = torch.from_numpy(file["labels"].astype(np.int64))
    x = standardize(pixels.reshape(-1, 1, 8, 8) / np.float32(16), "digits")
    writers = torch.bucketize(torch.arange(len(y)), torch.tensor(WRITERS_END), right=True)
    train, test = order[:-360], order[-360:]
    if strangers is not None:
        drawn = generator(strangers).choice(len(WRITERS_END), 3, replace=False)
        unseen = torch.isin(writers, torch.from_numpy(drawn))
        train, test = torch.where(~unseen)[0], torch.where(unseen)[0]
    return Samples(x[train], y[train], x[test], y[test], 10, name, owners=writers[train])


_SHA256_OF_MNIST_LABELS = "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"


def _idx_split(name: str, prefix: str) -> tuple[Tensor, Tensor]:
    image_path, label_path = (
        SOURCES[name].fetch(f"{prefix}-{kind}.gz", f"{prefix}-{kind}") for kind in _KINDS
    )
    images, labels = read_idx(image_path, num_dims=3), read_idx(label_path, num_dims=1)
    if len(images) != len(labels):
        raise ValueError(
            f"{image_path} holds {len(images)} images but {label_path} {len(labels)} labels: "
            "they must be a pair. Replace the one that does not belong."
        )
    if prefix == "train" and len(labels) == 60_000:
        header = struct.pack(">II", 0x801, len(labels))
        is_mnist = hashlib.sha256(header + labels.tobytes()).hexdigest() == _SHA256_OF_MNIST_LABELS
        if is_mnist != (name == "mnist"):
            raise ValueError(
                f"{label_path} {'is' if is_mnist else 'is not'} MNIST's, but {name!r} was asked "
                "for. Keep each data set in a folder of its own name under FLTOOLKIT_DATA; for "
                "labels of your own, build Samples."
            )
    x = standardize(images[:, None] / np.float32(255), name)
    return x, class_numbers(labels, 10, label_path)


def standardize(images: np.ndarray, name: str) -> Float32[Tensor, "_ channels height width"]:
    """Pixels in [0, 1], shape (samples, channels, height, width), to mean 0 and deviation 1."""
    mean, deviation = torch.tensor(PIXEL_STATISTICS[name])[..., None, None]
    return torch.from_numpy(images).float().sub_(mean).div_(deviation)


def class_numbers(labels: np.ndarray, num_classes: int, path: Path) -> Int64[Tensor, " _"]:
    """Labels as a tensor. Raises ValueError if one is no class number."""
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"{path} holds labels {labels.min()} to {labels.max()}: expected 0 to "
            f"{num_classes - 1}. Is it the file of another data set?"
        )
    return torch.from_numpy(labels.astype(np.int64))
