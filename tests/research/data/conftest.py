"""Fixtures of this room."""

import pytest

from fltoolkit_research.data.archives import CIFAR10, EMNIST


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty FLTOOLKIT_DATA, an empty cache, and mirrors that refuse the connection."""
    root, cache = tmp_path / "data", tmp_path / "cache"
    root.mkdir()
    monkeypatch.setenv("FLTOOLKIT_DATA", str(root))
    monkeypatch.setattr("pooch.os_cache", lambda name: cache)
    for source in (CIFAR10, EMNIST):
        monkeypatch.setitem(source.__dict__, "mirrors", ("http://127.0.0.1:1/",))
    return root, cache
