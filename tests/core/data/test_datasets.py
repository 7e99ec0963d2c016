import gzip
import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from core.data.files_of_tests import idx, write_idx_set

from fltoolkit.data import datasets as data
from fltoolkit.data import load

ROOT = Path(os.environ.get("FLTOOLKIT_DATA", "nowhere"))
REAL_MNIST = next(
    (f for f in (ROOT / "mnist", ROOT) if (f / "train-images-idx3-ubyte.gz").exists()), None
)
needs_mnist = pytest.mark.skipif(REAL_MNIST is None, reason="no MNIST: set FLTOOLKIT_DATA")


def test_digits():
    digits = load("digits_known_writers")
    assert digits.x_train.shape == (1437, 1, 8, 8)
    assert digits.x_test.shape == (360, 1, 8, 8)
    assert digits.x_train.dtype == torch.float32
    assert digits.y_train.dtype == torch.int64
    assert digits.x_train.mean().abs() < 1e-3
    assert digits.x_train.std() == pytest.approx(1, abs=1e-3)
    assert (digits.num_classes, digits.name) == (10, "digits_known_writers")
    # nothing is lost and nothing is in both parts: the pixel sum of the published set
    pixels = (torch.cat([digits.x_train, digits.x_test]) * 0.3761 + 0.3053) * 16
    assert pixels.sum(dtype=torch.float64) == 561718
    digest = hashlib.sha256(digits.y_test.numpy().astype("<i8").tobytes()).hexdigest()
    assert digest == "4493b2052e7b4258621d51f10f17a672594c5e3f2beaa1cf97c818dc583aafe7", (
        "always the same samples"
    )


@pytest.mark.slow
def test_digits_are_those_of_scikit_learn_and_split_as_it_splits():
    pytest.importorskip("sklearn", reason="needs pip install scikit-learn")
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(
        np.arange(1797), labels, test_size=360, stratify=labels, random_state=0
    )
    digits = load("digits_known_writers")
    x = torch.from_numpy(pixels.reshape(-1, 1, 8, 8)[parts[0]] / 16).float()
    assert torch.equal(digits.x_train, (x - 0.3053) / 0.3761)
    assert digits.y_train.tolist() == labels[parts[0]].tolist()
    assert digits.y_test.tolist() == labels[parts[1]].tolist()


def test_strangers_are_three_people_whom_nobody_trains_on():
    known = load("digits_known_writers")
    images = {
        tuple(row) for part in (known.x_train, known.x_test) for row in part.flatten(1).tolist()
    }
    tests = []
    for seed in range(4):
        digits = load("digits", strangers=seed)
        x, y = digits.x_train, digits.y_train
        assert len(digits.owners) == len(x) == len(y) == 1797 - len(digits.x_test)
        assert len(digits.owners.unique()) == 11
        rows = {tuple(row) for part in (x, digits.x_test) for row in part.flatten(1).tolist()}
        assert rows == images
        tests.append(digits.y_test.tolist())
    assert tests[0] == load("digits").y_test.tolist() != tests[1]
    with pytest.raises(ValueError, match='strangers=1: only "digits" can be split'):
        load("digits_known_writers", strangers=1)


def test_flat_shares_memory_and_keeps_the_rest():
    digits = load("digits")
    flat = digits.flat()
    assert flat.x_train.shape == (1427, 64)
    assert flat.x_test.shape == (370, 64)
    assert flat.x_train.data_ptr() == digits.x_train.data_ptr()
    assert flat.y_train is digits.y_train
    assert repr(flat) == "Samples(digits: 1,427 train, 370 test, x 64, 10 classes)"


@pytest.mark.parametrize("name", ["MNIST", "cifar", ""])
def test_unknown_name_lists_what_is_allowed(name):
    with pytest.raises(ValueError, match='"digits_known_writers", "mnist" or "fashion_mnist"'):
        load(name)


@pytest.mark.later
@needs_mnist
def test_real_mnist(monkeypatch):
    monkeypatch.setenv("FLTOOLKIT_DATA", str(REAL_MNIST))
    mnist = load("mnist")
    assert mnist.x_train.shape == (60_000, 1, 28, 28)
    assert mnist.x_test.shape == (10_000, 1, 28, 28)
    # the published mean and deviation of the training pixels, 0.1307 and 0.3081 of full scale
    assert mnist.x_train.mean(dtype=torch.float64) == pytest.approx(0, abs=2e-4)
    assert mnist.x_train.double().std() == pytest.approx(1, abs=2e-4)


@pytest.mark.later
@needs_mnist
def test_mnist_is_not_served_as_fashion_mnist(monkeypatch):
    monkeypatch.setenv("FLTOOLKIT_DATA", str(REAL_MNIST))
    with pytest.raises(ValueError, match=r"is MNIST's, but 'fashion_mnist' was asked for"):
        load("fashion_mnist")


def test_other_labels_are_not_served_as_mnist(folders):
    root, _ = folders
    write_idx_set(root / "mnist", num_train=60_000)
    with pytest.raises(ValueError, match=r"is not MNIST's, but 'mnist' was asked for"):
        load("mnist")


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("place", ["FLTOOLKIT_DATA/name", "FLTOOLKIT_DATA", "cache"])
def test_idx_files_are_found(folders, place, compress):
    root, cache = folders
    folder = {"FLTOOLKIT_DATA": root, "cache": cache / "fashion_mnist"}.get(
        place, root / "fashion_mnist"
    )
    images, labels = write_idx_set(folder, compress=compress)
    fashion = load("fashion_mnist")
    assert fashion.x_train.shape == (6, 1, 5, 3)
    assert fashion.x_test.shape == (4, 1, 5, 3)
    plain = (torch.tensor(images).float().div(255) - 0.2860) / 0.3530
    assert torch.equal(fashion.x_train[:, 0], plain)
    assert fashion.y_train.tolist() == labels.tolist()


def test_own_name_folder_comes_before_the_shared_one_and_the_cache(folders):
    root, cache = folders
    write_idx_set(root, num_train=7)
    write_idx_set(cache / "mnist", num_train=8)
    assert len(load("mnist").y_train) == 7
    write_idx_set(root / "mnist", num_train=9)
    assert len(load("mnist").y_train) == 9


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def _damaged():
    good = idx(np.arange(6 * 15).reshape(6, 5, 3))
    packed = gzip.compress(good)
    flipped = bytearray(packed)
    flipped[-6] ^= 1  # the checksum that ends a gzip file
    return {
        "short": (IMAGES, good[:-1], "89 bytes of data, its header says"),
        "header only": (IMAGES, good[:10], "begins with"),
        "no samples": (IMAGES, idx(np.zeros((0, 5, 3))), "empty"),
        "labels instead": (IMAGES, idx(np.zeros(6)), "in 3 dimension"),
        "a web page": (IMAGES, b"<!DOCTYPE html>" * 9, "an IDX file of uint8"),
        "hostile sizes": (IMAGES, bytes([0, 0, 8, 3]) + b"\xff" * 12, "header says"),
        "gzip flipped": (IMAGES, bytes(flipped), "CRC"),
        "gzip garbled": (IMAGES, packed[:10] + b"\xff" * 20 + packed[30:], "cannot be read"),
        "no pair": (LABELS, idx(np.zeros(3)), "4 images but .* 3 labels"),
        "no class": (LABELS, idx(np.array([0, 1, 2, 46])), "labels 0 to 46: expected 0 to 9"),
    }


@pytest.mark.parametrize("damage", _damaged())
def test_damaged_idx_file_is_named(folders, damage):
    name, content, message = _damaged()[damage]
    root, _ = folders
    write_idx_set(root / "mnist")
    (root / "mnist" / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load("mnist")
    assert name in str(caught.value)


def test_downloads_are_held_by_sha256_and_come_by_https_first():
    for source in data.SOURCES.values():
        assert all(mirror.endswith("/") for mirror in source.mirrors)
        assert source.mirrors[0].startswith("https://")
        for checksum in source.checksums.values():
            kind, digest = checksum.split(":")
            assert (kind, len(bytes.fromhex(digest))) == ("sha256", 32)
