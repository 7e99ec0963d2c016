import tarfile
from io import BytesIO

import numpy as np
import pytest

from experiments.cifar10 import ARCHIVE, CIFAR10, FILENAMES, load_cifar10


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Where the archive is looked for; the mirror refuses the connection."""
    monkeypatch.setenv("FLTOOLKIT_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache")
    monkeypatch.setitem(CIFAR10.__dict__, "mirrors", ("http://127.0.0.1:1/",))
    return tmp_path / ARCHIVE


def write(archive, **other):
    """Six files of 2 records; pixel value = file number, labels 0..9 and then 0, 1."""
    with tarfile.open(archive, "w:gz") as tar:
        for number, name in enumerate(FILENAMES):
            records = np.full((2, 3073), number, np.uint8)
            records[:, 0] = np.arange(2 * number, 2 * number + 2) % 10
            records[0, 1 + 1024] = 255  # image 0: the first pixel of the green plane
            content = other.get(name.partition(".")[0], records.tobytes())
            if content is not None:
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = len(content)
                tar.addfile(member, BytesIO(content))


def test_the_archive_is_read(archive):
    write(archive)
    cifar = load_cifar10()
    assert cifar.x_train.shape == (10, 3, 32, 32)
    assert cifar.x_test.shape == (2, 3, 32, 32)
    assert cifar.y_train.tolist() == list(range(10))
    assert cifar.y_test.tolist() == [0, 1]
    assert (cifar.x_train[:, 1, 0, 0] > 2).tolist() == [True, False] * 5  # (1 - 0.4822) / 0.2435
    levels = (cifar.x_train[:, 0, 0, 0] * 0.2470 + 0.4914) * 255
    assert levels.round().tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_damaged_cifar(archive):
    write(archive, data_batch_3=b"1" * 3072)
    with pytest.raises(ValueError, match=r"data_batch_3\.bin holds 3072 bytes.*3,073"):
        load_cifar10()
    write(archive, data_batch_1=None, data_batch_3=None)
    with pytest.raises(ValueError, match=r"no data_batch_1\.bin, data_batch_3\.bin in it"):
        load_cifar10()
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>", b""):
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz cannot be read"):
            load_cifar10()
    archive.unlink()
    with pytest.raises(FileNotFoundError, match=r"\.tar\.gz"):
        load_cifar10()
