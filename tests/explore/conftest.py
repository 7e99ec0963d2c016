"""Pages of the built site, opened from disk in Chromium with the network off."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import labserver
import pytest

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for a module's tests; each test has contexts of its own."""
    with labserver.browser() as started:
        yield started


def slide(tab: Any, control: str, place: int) -> None:
    """Put a slider on a stop, as dragging it does."""
    tab.evaluate(
        "([id, place]) => { const c = document.getElementById(id); c.value = place;"
        " c.dispatchEvent(new Event('input', {bubbles: true})); }",
        [control, place],
    )


@contextmanager
def opening(browser: Any, folder: Path) -> Iterator[Open]:
    """Opens pages of a folder, and closes them at the end.

    Errors of scripts, words on the console and requests to anything but files and to what the page
    made itself fail the test.
    """
    contexts, trouble = [], []

    def open_(name: str, hash: str = "", *, scripts: bool = True, **settings: Any) -> Any:
        context = browser.new_context(offline=True, java_script_enabled=scripts, **settings)
        contexts.append(context)
        context.set_default_timeout(600_000)  # to end a hang: others may keep this machine busy
        tab = context.new_page()
        tab.on("pageerror", lambda error: trouble.append(f"{name}: {error}"))
        tab.on("console", lambda message: trouble.append(f"{name}: {message.text}"))

        def asked(request: Any) -> None:
            if not request.url.startswith(("file:", "data:", "blob:")):
                trouble.append(f"{name} asks for {request.url}")

        tab.on("request", asked)
        tab.goto((folder / f"{name}.html").as_uri() + hash)
        if scripts:
            tab.wait_for_selector("html[data-ready]")
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert not trouble, trouble


@pytest.fixture
def open_page(browser: Any, site: Path) -> Iterator[Open]:
    """``open_page("pareto", "#data=digits", scheme="dark", width=360)``: of the built site."""
    with opening(browser, site / "docs" / "explore") as open_:

        def sized(
            name: str, hash: str = "", *, scheme: str = "light", width: int = 1280, **more: Any
        ) -> Any:
            size = {"width": width, "height": 740 if width < 500 else 900}
            return open_(name, hash, viewport=size, color_scheme=scheme, **more)

        yield sized
