"""Fixtures of this room."""

from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The pictures displayed, in order."""
    pictures: list[dict[str, Any]] = []

    def display(data: Any, **_: Any) -> SimpleNamespace:
        if isinstance(data, dict):
            pictures.append(data)
        return SimpleNamespace(update=lambda data, **_: pictures.append(data))

    monkeypatch.setattr("IPython.display.display", display)
    return pictures
