"""What several test files of this room share."""

import time
from typing import Any


def wait_for_png(shown: list[dict[str, Any]]) -> None:
    """Wait until the latest picture is one that can be saved."""
    for _ in range(6000):
        if "image/png" in shown[-1]:
            break
        time.sleep(0.05)
    assert set(shown[-1]) == {"image/png", "text/plain"}
