"""CIFAR-10, from its archive and from folders, and the errors about files that are wrong."""

import tarfile

import numpy as np
import pytest

from experiments.cifar10 import CIFAR10, FILENAMES, load_cifar10


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty FLTOOLKIT_DATA, an empty cache, and a mirror that refuses the connection."""
    root, cache = tmp_path / "data", tmp_path / "cache"
    root.mkdir()
    monkeypatch.setenv("FLTOOLKIT_DATA", str(root))
    monkeypatch.setattr("pooch.os_cache", lambda name: cache)
    monkeypatch.setitem(CIFAR10.__dict__, "mirrors", ("http://127.0.0.1:1/",))
    return root, cache


def write_cifar(folder):
    """Six files of 2 records; pixel value = file number, labels 0..9 and then 0, 1."""
    folder.mkdir(parents=True)
    for number, filename in enumerate(FILENAMES):
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
    assert sorted(p.name for p in cache.rglob("*") if p.is_file()) == FILENAMES
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


def test_without_network_the_archive_is_named(folders):
    with pytest.raises(FileNotFoundError, match=r"\.tar\.gz"):
        load_cifar10()
