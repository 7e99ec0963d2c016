"""CIFAR-10 and EMNIST, from archives and folders, and what is said about files that are wrong."""

import sys
import tarfile

import numpy as np
import pytest
import torch

from fltoolkit_research.data import load_cifar10, load_emnist_federated

CIFAR_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def write_cifar(folder):
    """Six files of 2 records; pixel value = file number, labels 0..9 and then 0, 1."""
    folder.mkdir(parents=True)
    for number, filename in enumerate(CIFAR_FILES):
        records = np.full((2, 3073), number, np.uint8)
        records[:, 0] = np.arange(2 * number, 2 * number + 2) % 10
        records[0, 1 + 1024] = 255  # image 0: the first pixel of the green plane
        (folder / filename).write_bytes(records.tobytes())


def check_cifar(cifar):
    assert cifar.x_train.shape == (10, 3, 32, 32)
    assert cifar.x_test.shape == (2, 3, 32, 32)
    assert cifar.y_train.tolist() == list(range(10))
    assert cifar.y_test.tolist() == [0, 1]
    assert (cifar.x_train[:, 1, 0, 0] > 2).tolist() == [True, False] * 5  # (1 - 0.4822) / 0.2435
    levels = (cifar.x_train[:, 0, 0, 0] * 0.2470 + 0.4914) * 255
    assert levels.round().tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("subfolder", ["cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "."])
def test_cifar_binary_folder(folders, subfolder):
    root, _ = folders
    root.rmdir()
    write_cifar(root / subfolder)
    check_cifar(load_cifar10())


def test_cifar_archive_is_unpacked_once_into_the_cache(folders):
    root, cache = folders
    write_cifar(root / "elsewhere")
    archive = root / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root / "elsewhere", "cifar-10-batches-bin")
        tar.add(root / "elsewhere" / "test_batch.bin", "../../outside.bin")
    check_cifar(load_cifar10())
    archive.unlink()
    check_cifar(load_cifar10())
    assert sorted(p.name for p in cache.rglob("*") if p.is_file()) == CIFAR_FILES
    assert not list(root.parent.rglob("outside.bin"))


def test_damaged_cifar(folders):
    root, cache = folders
    write_cifar(root / "cifar10")
    (root / "cifar10" / "data_batch_3.bin").write_bytes(b"1" * 3072)
    with pytest.raises(ValueError, match=r"data_batch_3\.bin holds 3072 bytes.*3,073"):
        load_cifar10()
    (root / "cifar10" / "data_batch_3.bin").unlink()
    with pytest.raises(ValueError, match=r"data_batch_3\.bin cannot be read"):
        load_cifar10()
    (root / "cifar10" / "data_batch_1.bin").unlink()
    archive = root / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:  # two files are missing in it
        tar.add(root / "cifar10", "cifar-10-batches-bin")
    with pytest.raises(ValueError, match=r"no data_batch_1\.bin, data_batch_3\.bin in it"):
        load_cifar10()
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>", b""):
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz cannot be read"):
            load_cifar10()
    assert not [p for p in cache.rglob("*") if p.is_file()]


def write_emnist(path, label=3):
    h5py = pytest.importorskip("h5py")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for number, client in enumerate(["f0002_00", "f0000_14", "f0001_41"]):
            pixels = np.full((number + 1, 28, 28), 1.0, np.float32)
            pixels[:, 0, 0] = 0.25
            file[f"examples/{client}/pixels"] = pixels
            file[f"examples/{client}/label"] = np.full(number + 1, label, np.int32)


def test_emnist_by_writer(folders):
    root, _ = folders
    write_emnist(root / "emnist" / "fed_emnist_digitsonly_train.h5")
    clients = load_emnist_federated("train")
    assert list(clients) == ["f0000_14", "f0001_41", "f0002_00"]
    x, y = clients["f0001_41"]
    assert x.shape == (3, 1, 28, 28)
    assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
    assert (x[0, 0, 0, 0], x[0, 0, 0, 1]) == (0.25, 1.0)
    assert y.tolist() == [3, 3, 3]
    assert list(load_emnist_federated(max_clients=2)) == ["f0000_14", "f0001_41"]


def test_emnist_errors(folders, monkeypatch):
    root, _ = folders
    path = root / "fed_emnist_digitsonly_train.h5"
    write_emnist(path, label=61)
    with pytest.raises(ValueError, match="61: expected 0 to 9"):
        load_emnist_federated()
    path.write_bytes(b"not HDF5")
    with pytest.raises(ValueError, match=r"digitsonly_train\.h5 cannot be read"):
        load_emnist_federated()
    with pytest.raises(ValueError, match="max_clients=0"):
        load_emnist_federated(max_clients=0)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r'pip install "fltoolkit\[emnist\]"'):
        load_emnist_federated()


@pytest.mark.parametrize("load", [load_cifar10, load_emnist_federated])
def test_without_network_the_archive_is_named(folders, load):
    with pytest.raises(FileNotFoundError, match=r"\.tar\.(gz|bz2)"):
        load()
