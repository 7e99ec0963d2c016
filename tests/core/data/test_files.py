"""Downloads: checked, resumed elsewhere, and errors that name the ways out."""

import hashlib
import http.server
import socket
import threading

import pytest
from core.data.files_of_tests import write_idx_set

from fltoolkit.data import files, load
from fltoolkit.data.datasets import SOURCES
from fltoolkit.data.files import DataNotFoundError, Source


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
    sums = {
        p.name: f"sha256:{hashlib.sha256(p.read_bytes()).hexdigest()}" for p in folder.iterdir()
    }
    monkeypatch.setitem(SOURCES, "mnist", Source("mnist", mirrors, sums))


def test_download_from_the_second_mirror_then_from_the_cache(folders, server, monkeypatch):
    (_, cache), (url, www, asked) = folders, server
    _, labels = write_idx_set(www / "good")
    use_mirrors(monkeypatch, www / "good", f"{url}/gone/", f"{url}/good/")
    assert load("mnist").y_train.tolist() == labels.tolist()
    assert asked[:2] == ["/gone/train-images-idx3-ubyte.gz", "/good/train-images-idx3-ubyte.gz"]
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
        digest = hashlib.sha256((www / folder / filename).read_bytes()).hexdigest()
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
    places = (str(root), str(cache / "fashion_mnist"), "http://127.0.0.1:1/b/")
    for part in (*places, "FLTOOLKIT_DATA", "connect to the internet", 'load("digits")'):
        assert part in str(caught.value)


def test_without_downloads_a_missing_file_is_an_error_at_once(folders, monkeypatch):
    monkeypatch.setattr("pooch.retrieve", lambda *args, **more: pytest.fail("a download"))
    with files.without_downloads(), pytest.raises(DataNotFoundError, match="not on this mach"):
        load("mnist")


def test_a_silent_mirror_does_not_hang(folders, monkeypatch):
    monkeypatch.setattr(files, "_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, never answers
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        source = Source("mnist", (mirror,), SOURCES["mnist"].checksums)
        monkeypatch.setitem(SOURCES, "mnist", source)
        with pytest.raises(DataNotFoundError, match="timed out"):
            load("mnist")
