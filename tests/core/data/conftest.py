"""Fixtures of this room."""

import pytest

from fltoolkit.data import files as datafiles


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
