import pytest

from fltoolkit.data import datasets, files


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty FLTOOLKIT_DATA, an empty cache, and mirrors that refuse the connection."""
    root, cache = tmp_path / "data", tmp_path / "cache"
    root.mkdir()
    monkeypatch.setenv("FLTOOLKIT_DATA", str(root))
    monkeypatch.setattr("pooch.os_cache", lambda name: cache)
    for name, source in datasets.SOURCES.items():
        closed = files.Source(
            name, ("http://127.0.0.1:1/a/", "http://127.0.0.1:1/b/"), source.checksums
        )
        monkeypatch.setitem(datasets.SOURCES, name, closed)
    return root, cache
