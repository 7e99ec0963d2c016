"""Fixtures of this room."""

from typing import Any

import pytest


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The pictures displayed, in order."""
    pictures: list[dict[str, Any]] = []

    def display(data: Any, **_: Any) -> None:
        if isinstance(data, dict):
            pictures.append(data)

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("IPython.display.update_display", display)
    return pictures
