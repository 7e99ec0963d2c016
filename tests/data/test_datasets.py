import gzip
import hashlib
import http.server
import itertools
import os
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fltoolkit.data import (
    Batches,
    Dataset,
    load,
    load_emnist_federated,
    partition_dirichlet,
    partition_iid,
    partition_shards,
    split_features,
)
from fltoolkit.data import _files as datafiles
from fltoolkit.data import datasets as data
from fltoolkit.data.datasets import DataNotFoundError

SEEDS = st.integers(0, 2**32)


def real_mnist_folder():
    root = Path(os.environ.get("FLTOOLKIT_DATA", "nowhere"))
    found = (f for f in (root / "mnist", root) if (f / "train-images-idx3-ubyte.gz").exists())
    return next(found, None)


REAL_MNIST = real_mnist_folder()
needs_mnist = pytest.mark.skipif(REAL_MNIST is None, reason="no MNIST: set FLTOOLKIT_DATA")


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty FLTOOLKIT_DATA, an empty cache, and mirrors that refuse the connection."""
    root, cache = tmp_path / "data", tmp_path / "cache"
    root.mkdir()
    monkeypatch.setenv("FLTOOLKIT_DATA", str(root))
    monkeypatch.setattr(datafiles, "_cache_folder", lambda: cache)
    closed = {
        name: source._replace(mirrors=("http://127.0.0.1:1/a/", "http://127.0.0.1:1/b/"))
        for name, source in datafiles._SOURCES.items()
    }
    monkeypatch.setattr(datafiles, "_SOURCES", closed)
    return root, cache


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_set(folder, num_train=6, num_test=4, compress=True, seed=0):
    """A tiny data set of MNIST's form (5×3 images); returns the training arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, kept = np.random.default_rng(seed), None
    for prefix, count in (("train", num_train), ("t10k", num_test)):
        images, labels = rng.integers(0, 256, (count, 5, 3)), rng.integers(0, 10, count)
        kept = kept or (images, labels)
        for kind, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
            path = folder / f"{prefix}-{kind}{'.gz' if compress else ''}"
            path.write_bytes(gzip.compress(idx(array)) if compress else idx(array))
    return kept


# ---- load ---------------------------------------------------------------------------------------


def test_digits():
    digits = load("digits")
    assert digits.x_train.shape == (1437, 1, 8, 8)
    assert digits.x_test.shape == (360, 1, 8, 8)
    assert digits.x_train.dtype == torch.float32
    assert digits.y_train.dtype == torch.int64
    assert digits.x_train.mean().abs() < 1e-3
    assert digits.x_train.std() == pytest.approx(1, abs=1e-3)
    assert (digits.num_classes, digits.name) == (10, "digits")
    # stratified: in both parts each class has its share of the 1,797 within one sample
    everything = torch.cat([digits.y_train, digits.y_test]).bincount()
    assert everything.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (digits.y_test.bincount() - everything * 360 / 1797).abs().max() < 1
    # nothing is lost and nothing is in both parts: the pixel sum of the published set
    pixels = (torch.cat([digits.x_train, digits.x_test]) * 0.3761 + 0.3053) * 16
    assert pixels.sum(dtype=torch.float64) == 561718


def test_digits_are_always_split_the_same_way():
    one, two = load("digits"), load("digits")
    assert torch.equal(one.x_train, two.x_train)
    digest = hashlib.md5(one.y_test.numpy().astype("<i8").tobytes()).hexdigest()
    assert digest == "eff59bacc24de44fc202d2b2edba0705"


def test_flat_shares_memory_and_keeps_the_rest():
    digits = load("digits")
    flat = digits.flat()
    assert flat.x_train.shape == (1437, 64)
    assert flat.x_test.shape == (360, 64)
    assert flat.x_train.data_ptr() == digits.x_train.data_ptr()
    assert flat.y_train is digits.y_train
    assert repr(flat) == "Dataset(digits: 1,437 train, 360 test, x 64, 10 classes)"


@pytest.mark.parametrize("name", ["MNIST", "cifar", ""])
def test_unknown_name_lists_what_is_allowed(name):
    with pytest.raises(ValueError, match='"digits", "mnist", "fashion_mnist" or "cifar10"'):
        load(name)


@needs_mnist
def test_real_mnist(monkeypatch):
    published = {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }
    for filename, md5 in published.items():
        raw = gzip.decompress((REAL_MNIST / f"{filename}.gz").read_bytes())
        assert hashlib.md5(raw).hexdigest() == md5, filename
    monkeypatch.setenv("FLTOOLKIT_DATA", str(REAL_MNIST))
    start = time.perf_counter()
    mnist = load("mnist")
    print(f"\nload('mnist'): {time.perf_counter() - start:.2f} s")
    assert mnist.x_train.shape == (60_000, 1, 28, 28)
    assert mnist.x_test.shape == (10_000, 1, 28, 28)
    assert mnist.y_train.bincount().tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert mnist.y_test.bincount().tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    # the published mean and deviation of the training pixels, 0.1307 and 0.3081 of full scale
    assert mnist.x_train.mean(dtype=torch.float64) == pytest.approx(0, abs=2e-4)
    assert mnist.x_train.double().std() == pytest.approx(1, abs=2e-4)
    assert len(Batches(mnist.x_train, mnist.y_train, 64, seed=0)) == 938


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


def test_cache_alone_without_the_environment_variable(folders, monkeypatch):
    _, cache = folders
    monkeypatch.delenv("FLTOOLKIT_DATA")
    write_idx_set(cache / "mnist")
    assert len(load("mnist").y_train) == 6


def _damaged_images():
    good = idx(np.arange(6 * 15).reshape(6, 5, 3))
    packed = gzip.compress(good)
    flipped = bytearray(packed)
    flipped[-6] ^= 1  # the checksum that ends a gzip file
    return {
        "short": (good[:-1], "89 bytes of data, its header says"),
        "long": (good + b"0", "91 bytes of data"),
        "header only": (good[:10], "begins with"),
        "empty": (b"", "begins with"),
        "no samples": (idx(np.zeros((0, 5, 3))), "empty"),
        "labels instead": (idx(np.zeros(6)), "in 3 dimension"),
        "int32 type": (good[:2] + b"\x0c" + good[3:], r"bytes \[0, 0, 12, 3\]"),
        "a web page": (b"<!DOCTYPE html>" * 9, "an IDX file of uint8"),
        "hostile sizes": (bytes([0, 0, 8, 3]) + b"\xff" * 12, "header says"),
        "gzip cut": (packed[:-12], "cannot be read"),
        "gzip flipped": (bytes(flipped), "CRC"),
        "gzip garbled": (packed[:10] + b"\xff" * 20 + packed[30:], "cannot be read"),
        "gzip of nothing": (packed[:5], "cannot be read"),
    }


@pytest.mark.parametrize("damage", _damaged_images())
def test_damaged_idx_file_is_named(folders, damage):
    content, message = _damaged_images()[damage]
    root, _ = folders
    write_idx_set(root / "mnist")
    (root / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"mnist.train-images-idx3-ubyte\.gz") as caught:
        load("mnist")
    assert caught.match(message)


def test_images_and_labels_must_be_a_pair(folders):
    root, _ = folders
    write_idx_set(root / "mnist")
    (root / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(3)))
    with pytest.raises(ValueError, match=r"4 images but .*t10k-labels.* 3 labels"):
        load("mnist")


def test_labels_outside_the_classes(folders):
    root, _ = folders
    write_idx_set(root / "mnist")
    (root / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.array([0, 1, 2, 46])))
    with pytest.raises(ValueError, match="labels 0 to 46: expected 0 to 9"):
        load("mnist")


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
    check_cifar(load("cifar10"))


def test_cifar_archive_is_unpacked_once_into_the_cache(folders):
    root, cache = folders
    write_cifar(root / "elsewhere")
    archive = root / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root / "elsewhere", "cifar-10-batches-bin")
        tar.add(root / "elsewhere" / "test_batch.bin", "../../outside.bin")
    check_cifar(load("cifar10"))
    archive.unlink()
    check_cifar(load("cifar10"))
    assert sorted(p.name for p in cache.rglob("*") if p.is_file()) == CIFAR_FILES
    assert not list(root.parent.rglob("outside.bin"))


def test_damaged_cifar(folders):
    root, cache = folders
    write_cifar(root / "cifar10")
    (root / "cifar10" / "data_batch_3.bin").write_bytes(b"1" * 3072)
    with pytest.raises(ValueError, match=r"data_batch_3\.bin holds 3072 bytes.*3,073"):
        load("cifar10")
    (root / "cifar10" / "data_batch_3.bin").unlink()
    with pytest.raises(ValueError, match=r"data_batch_3\.bin cannot be read"):
        load("cifar10")
    (root / "cifar10" / "data_batch_1.bin").unlink()
    archive = root / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:  # two files are missing in it
        tar.add(root / "cifar10", "cifar-10-batches-bin")
    with pytest.raises(ValueError, match=r"no data_batch_1\.bin, data_batch_3\.bin in it"):
        load("cifar10")
    whole = archive.read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>", b""):
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=r"cifar-10-binary\.tar\.gz cannot be read"):
            load("cifar10")
    assert not [p for p in cache.rglob("*") if p.is_file()]


# ---- downloads ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path):
    """A web server for tmp_path/www; yields its address, its folder and the paths asked for."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "www"))

        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *args):
            pass

    (tmp_path / "www").mkdir()
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{httpd.server_port}", tmp_path / "www", asked
    httpd.shutdown()
    httpd.server_close()


def use_mirrors(monkeypatch, folder, *mirrors):
    sums = {p.name: f"md5:{hashlib.md5(p.read_bytes()).hexdigest()}" for p in folder.iterdir()}
    monkeypatch.setitem(datafiles._SOURCES, "mnist", datafiles._Source(mirrors, sums))


def test_download_from_the_second_mirror_then_from_the_cache(folders, server, monkeypatch):
    (_, cache), (url, www, asked) = folders, server
    _, labels = write_idx_set(www / "good")
    use_mirrors(monkeypatch, www / "good", f"{url}/gone/", f"{url}/good/")
    assert load("mnist").y_train.tolist() == labels.tolist()
    assert asked[:2] == [
        "/gone/train-images-idx3-ubyte.gz",
        "/good/train-images-idx3-ubyte.gz",
    ]
    assert len(asked) == 8
    assert sorted(p.name for p in (cache / "mnist").iterdir()) == sorted(
        p.name for p in (www / "good").iterdir()
    )
    load("mnist")
    assert len(asked) == 8  # nothing is downloaded twice


def test_wrong_checksum_tries_on_and_leaves_nothing(folders, server, monkeypatch):
    (_, cache), (url, www, _) = folders, server
    write_idx_set(www / "good")
    write_idx_set(www / "bad", seed=1)
    use_mirrors(monkeypatch, www / "good", f"{url}/bad/")
    with pytest.raises(DataNotFoundError) as caught:
        load("mnist")
    filename = "train-images-idx3-ubyte.gz"
    for folder in ("good", "bad"):
        digest = hashlib.md5((www / folder / filename).read_bytes()).hexdigest()
        assert digest in str(caught.value)
    assert filename in str(caught.value)
    assert not list((cache / "mnist").iterdir())
    use_mirrors(monkeypatch, www / "good", f"{url}/bad/", f"{url}/good/")
    assert len(load("mnist").y_train) == 6


def test_without_network_the_error_names_three_ways_out(folders):
    root, cache = folders
    with pytest.raises(FileNotFoundError) as caught:
        load("fashion_mnist")
    assert isinstance(caught.value, DataNotFoundError)
    for part in (
        "fashion_mnist",
        "FLTOOLKIT_DATA",
        str(root),
        str(cache / "fashion_mnist"),
        "t10k-labels-idx1-ubyte.gz",
        "connect to the internet",
        'load("digits")',
        "http://127.0.0.1:1/a/",
        "http://127.0.0.1:1/b/",
    ):
        assert part in str(caught.value)
    with pytest.raises(DataNotFoundError, match=r"cifar-10-binary\.tar\.gz"):
        load("cifar10")
    with pytest.raises(DataNotFoundError, match=r"fed_emnist_digitsonly\.tar\.bz2"):
        load_emnist_federated()


def test_a_silent_mirror_does_not_hang(folders, monkeypatch):
    monkeypatch.setattr(datafiles, "_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, never answers
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        source = datafiles._SOURCES["mnist"]._replace(mirrors=(mirror,))
        monkeypatch.setitem(datafiles._SOURCES, "mnist", source)
        with pytest.raises(DataNotFoundError, match="timed out"):
            load("mnist")


def test_every_source_has_a_checksum_of_the_right_length():
    length = {"md5": 32, "sha256": 64}
    for source in datafiles._SOURCES.values():
        assert all(mirror.endswith("/") for mirror in source.mirrors)
        for checksum in source.checksums.values():
            kind, digest = checksum.split(":")
            assert len(bytes.fromhex(digest)) * 2 == length[kind]


# ---- federated EMNIST ---------------------------------------------------------------------------


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


def test_emnist_archive(folders):
    root, cache = folders
    write_emnist(root / "made" / "fed_emnist_test.h5", label=61)
    with tarfile.open(root / "fed_emnist.tar.bz2", "w:bz2") as tar:
        tar.add(root / "made" / "fed_emnist_test.h5", "fed_emnist_test.h5")
    clients = load_emnist_federated("test", only_digits=False)
    assert clients["f0002_00"][1].tolist() == [61]
    assert [p.name for p in (cache / "emnist").iterdir()] == ["fed_emnist_test.h5"]


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


# ---- partitions ---------------------------------------------------------------------------------

PARTITIONS = {
    "iid": partition_iid,
    "dirichlet": lambda y, n, seed: partition_dirichlet(y, n, alpha=0.3, seed=seed),
    "shards": lambda y, n, seed: partition_shards(y, n, shards_per_client=2, seed=seed),
    "features": lambda y, n, seed: split_features(len(y), n, seed=seed),
}


def flatten(parts):
    return torch.cat(parts).tolist()


@pytest.mark.parametrize("kind", PARTITIONS)
@settings(deadline=None, max_examples=50)
@given(
    labels=st.lists(st.integers(-3, 6), min_size=12, max_size=80),
    num_clients=st.integers(1, 6),
    seed=SEEDS,
)
def test_partition_laws(kind, labels, num_clients, seed):
    y = torch.tensor(labels)
    parts = PARTITIONS[kind](y, num_clients, seed=seed)
    assert len(parts) == num_clients
    assert all(part.dtype == torch.int64 and part.ndim == 1 and len(part) for part in parts)
    assert sorted(flatten(parts)) == list(range(len(labels)))
    again = PARTITIONS[kind](y, num_clients, seed=seed)
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("kind", PARTITIONS)
def test_another_seed_is_another_partition_and_no_global_rng_is_touched(kind):
    y = torch.arange(500) % 10
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    orders = {tuple(flatten(PARTITIONS[kind](y, 5, seed=seed))) for seed in range(20)}
    assert len(orders) == 20
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


@given(num_samples=st.integers(1, 200), num_clients=st.integers(1, 50), seed=SEEDS)
def test_iid_is_even(num_samples, num_clients, seed):
    num_clients = min(num_clients, num_samples)
    parts = partition_iid(torch.zeros(num_samples, dtype=torch.int64), num_clients, seed=seed)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def share_of_commonest_class(y, parts):
    """Mean over clients, weighted by size: 0.1 is iid for ten classes, 1 is one class each."""
    return sum(y[part].bincount().max().item() for part in parts) / len(y)


def test_dirichlet_small_alpha_is_more_skewed():
    y = torch.arange(10_000) % 10
    skew = {
        alpha: np.mean(
            [
                share_of_commonest_class(y, partition_dirichlet(y, 20, alpha=alpha, seed=seed))
                for seed in range(5)
            ]
        )
        for alpha in (0.01, 0.1, 1.0, 10.0, 1000.0)
    }
    assert list(skew.values()) == sorted(skew.values(), reverse=True)
    assert skew[0.01] > 0.8
    assert skew[1000.0] < 0.12


def test_dirichlet_proportions_have_the_stated_moments():
    """Per class, a client's share is Beta(alpha, (n-1) alpha): mean 1/n, the known variance."""
    y, n, alpha = torch.zeros(20_000, dtype=torch.int64), 4, 0.5
    shares = np.array(
        [
            [len(p) / len(y) for p in partition_dirichlet(y, n, alpha=alpha, seed=seed)]
            for seed in range(400)
        ]
    )
    variance = (1 / n) * (1 - 1 / n) / (n * alpha + 1)  # 0.0625
    assert shares.mean(0) == pytest.approx([0.25] * n, abs=4 * (variance / 400) ** 0.5)
    assert shares.var() == pytest.approx(variance, rel=0.15)


@settings(deadline=None)
@given(alpha=st.floats(1e-300, 1e300), num_clients=st.integers(1, 30), seed=SEEDS)
def test_dirichlet_leaves_nobody_empty(alpha, num_clients, seed):
    parts = partition_dirichlet(torch.arange(30) % 3, num_clients, alpha=alpha, seed=seed)
    assert sorted(flatten(parts)) == list(range(30))
    assert min(map(len, parts)) >= 1


def test_shards_give_two_classes():
    """McMahan's setting at a tenth of the size: 100 clients, 200 shards of 30, two classes."""
    y = torch.arange(6000) % 10
    parts = partition_shards(y, 100, seed=0)
    assert {len(part) for part in parts} == {60}
    assert Counter(len(y[part].unique()) for part in parts).keys() <= {1, 2}
    assert share_of_commonest_class(y, parts) < 0.7  # 1 would be one class each


@given(
    labels=st.lists(st.integers(0, 9), min_size=24, max_size=100),
    num_clients=st.integers(1, 8),
    shards_per_client=st.integers(1, 3),
    seed=SEEDS,
)
def test_shards_meet_few_classes(labels, num_clients, shards_per_client, seed):
    """Each class border cuts at most one shard, so few (client, class) pairs exist in all."""
    y = torch.tensor(labels)
    parts = partition_shards(y, num_clients, shards_per_client=shards_per_client, seed=seed)
    num_pairs = sum(len(y[part].unique()) for part in parts)
    assert num_pairs <= num_clients * shards_per_client + len(set(labels)) - 1


def test_shards_mix_the_samples_of_a_class():
    parts = partition_shards(torch.zeros(100, dtype=torch.int64), 2, shards_per_client=1, seed=0)
    assert all(part.max() - part.min() > 49 for part in parts)


def test_split_features_blocks():
    assert [part.tolist() for part in split_features(7, 3)] == [[0, 1, 2], [3, 4], [5, 6]]
    image = torch.arange(64).reshape(1, 1, 8, 8)
    upper, lower = split_features((1, 8, 8), 2)
    assert torch.equal(image.flatten(1)[:, upper].reshape(4, 8), image[0, 0, :4])
    assert torch.equal(image.flatten(1)[:, lower].reshape(4, 8), image[0, 0, 4:])
    assert flatten(split_features(64, 2, seed=0)) != list(range(64))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y: partition_iid(y, 11, seed=0), "num_clients=11: must be 1 to 10"),
        (lambda y: partition_iid(y, 0, seed=0), "num_clients=0: must be 1 to 10"),
        (lambda y: partition_iid(y, 2, seed=-1), "at least 0, not -1"),
        (lambda y: partition_dirichlet(y, 11, alpha=1.0, seed=0), "num_clients=11"),
        (lambda y: partition_dirichlet(y, 2, alpha=0.0, seed=0), r"alpha=0\.0: must be positive"),
        (lambda y: partition_dirichlet(y, 2, alpha=float("nan"), seed=0), "alpha=nan"),
        (lambda y: partition_dirichlet(y, 2, alpha=float("inf"), seed=0), "alpha=inf"),
        (lambda y: partition_shards(y, 6, seed=0), "shards_per_client=2 for 6 .* at most 10"),
        (lambda y: partition_shards(y, 2, shards_per_client=0, seed=0), "shards_per_client=0"),
        (lambda y: split_features(10, 11), "num_parties=11: must be 1 to 10"),
        (lambda y: split_features((2, 5), 0), "num_parties=0: must be 1 to 10"),
    ],
)
def test_partition_arguments_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.arange(10))


# ---- batches ------------------------------------------------------------------------------------


def numbers(batches):
    return [y.tolist() for _, y in batches]


def test_938_batches_of_64_the_last_of_32():
    batches = Batches(torch.zeros(60_000, 1), torch.arange(60_000), 64, seed=0)
    assert (len(batches), batches.num_samples) == (938, 60_000)
    sizes = [len(y) for y in numbers(batches.epoch(0))]
    assert sizes == [64] * 937 + [32]


@given(
    num_samples=st.integers(1, 60),
    batch_size=st.integers(1, 70),
    seed=SEEDS,
    number=st.integers(0, 10**6),
)
def test_an_epoch_holds_each_sample_once_with_its_label(num_samples, batch_size, seed, number):
    x = torch.arange(num_samples * 2).reshape(-1, 2)
    batches = Batches(x, torch.arange(num_samples), batch_size, seed=seed)
    epoch = list(batches.epoch(number))
    assert len(epoch) == len(batches)
    assert sorted(itertools.chain(*numbers(epoch))) == list(range(num_samples))
    assert all(torch.equal(inputs, x[labels]) for inputs, labels in epoch)
    assert numbers(epoch) == numbers(batches.epoch(number))


def test_the_order_depends_on_seed_and_epoch_and_nothing_else():
    y = torch.arange(100)
    orders = {
        str(numbers(Batches(y, y, 10, seed=seed).epoch(number)))
        for seed in range(5)
        for number in range(5)
    }
    assert len(orders) == 25
    expected = torch.from_numpy(np.random.default_rng([3, 7]).permutation(100))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    assert torch.equal(torch.cat([y for _, y in Batches(y, y, 10, seed=3).epoch(7)]), expected)
    assert torch.equal(state, torch.get_rng_state())


def test_resume():
    batches = Batches(torch.arange(10), torch.arange(10), 4, seed=0)
    whole = numbers(batches.epochs(5))
    assert len(whole) == 15
    assert whole == [y for number in range(5) for y in numbers(batches.epoch(number))]
    assert numbers(batches.epochs(5, start=2)) == whole[6:]
    assert numbers(itertools.islice(batches.epochs(5), 7, None)) == whole[7:]
    assert numbers(batches.epochs(5, start=5)) == []
    with pytest.raises(ValueError, match="start=6: must be 0 to num_epochs=5"):
        batches.epochs(5, start=6)


def test_two_epochs_at_the_same_time_do_not_disturb_each_other():
    batches = Batches(torch.arange(10), torch.arange(10), 4, seed=0)
    together = list(zip(batches.epoch(0), batches.epoch(1), strict=True))
    assert numbers(one for one, _ in together) == numbers(batches.epoch(0))
    assert numbers(two for _, two in together) == numbers(batches.epoch(1))


def test_vertical_batches_are_aligned():
    x = torch.arange(30).reshape(10, 3)
    columns = split_features(3, 2)
    batches = Batches(tuple(x[:, c] for c in columns), torch.arange(10), 4, seed=0)
    for inputs, y in batches.epoch(0):
        assert isinstance(inputs, tuple)
        assert torch.equal(torch.cat(inputs, 1), x[y])


def test_a_batch_is_a_copy():
    x = torch.zeros(4, 2)
    for inputs, _ in Batches(x, torch.arange(4), 2, seed=0).epoch(0):
        inputs.add_(1)
    assert x.sum() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: Batches(x[:3], y, 2, seed=0), "x has 3 samples but y 4"),
        (lambda x, y: Batches((x, x[:2]), y, 2, seed=0), "x has 2 samples but y 4"),
        (lambda x, y: Batches(x, y, 0, seed=0), "batch_size=0"),
        (lambda x, y: Batches(x[:0], y[:0], 2, seed=0), "of 0 samples"),
        (lambda x, y: Batches(x, y, 2, seed=-1), "at least 0, not -1"),
        (lambda x, y: next(Batches(x, y, 2, seed=0).epoch(-1)), "at least 0, not -1"),
    ],
)
def test_batches_arguments_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.zeros(4, 2), torch.arange(4))


# ---- imports ------------------------------------------------------------------------------------


def test_import_is_light():
    code = (
        "import sys, fltoolkit.data.datasets; "
        "heavy = {'sklearn', 'pooch', 'h5py', 'matplotlib', 'pandas'} & set(sys.modules); "
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names_are_documented():
    assert all(getattr(data, name).__doc__ for name in data.__all__)
    assert Dataset.flat.__doc__
