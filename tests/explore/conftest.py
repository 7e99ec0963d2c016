"""Pages and scripts of docs/explore in Chromium, from disk and with the network off."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import labserver
import pytest

EXPLORE = Path(__file__).parents[2] / "docs" / "explore"
SCRIPTS = ("formulas.js", "wire.js", "trainer.js", "data/digits.js")
Open = Callable[..., Any]
Call = Callable[[str, Any], Any]

AFTERWARDS = """
explore.trainer = explore.makeTrainer(explore.wire);
explore.treeFrom = (entries) => entries.map(([name, shape, values]) =>
  ({ name, shape, data: Float32Array.from(values) }));
explore.entriesOf = (tree) => tree.map(({ name, shape, data }) => [name, shape, Array.from(data)]);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for a module's tests; each test has contexts of its own."""
    with labserver.browser() as started:
        yield started


@pytest.fixture(scope="module")
def call(browser: Any, tmp_path_factory: Any) -> Iterator[Call]:
    """``call(code, value)`` runs ``(explore, value) => ...`` behind the scripts of a page.

    Values travel as JSON, in which every number of float32 keeps its bits.
    """
    page = tmp_path_factory.mktemp("scripts") / "page.html"
    tags = "".join(f'<script src="{(EXPLORE / name).as_uri()}"></script>' for name in SCRIPTS)
    page.write_text(f"<!doctype html>{tags}<script>{AFTERWARDS}</script>")
    tab = browser.new_context(offline=True).new_page()
    trouble: list[str] = []
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.goto(page.as_uri())
    assert not trouble, trouble
    yield lambda code, value: tab.evaluate(f"(value) => ({code})(explore, value)", value)
    tab.context.close()


def slide(tab: Any, control: str, place: int) -> None:
    """Put a slider on a stop, as dragging it does."""
    tab.evaluate(
        "([id, place]) => { const c = document.getElementById(id); c.value = place;"
        " c.dispatchEvent(new Event('input', {bubbles: true})); }",
        [control, place],
    )


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """``open_page("pareto", "#data=digits", scheme="dark", width=360)``: as it lies in the folder.

    Errors of scripts, words on the console and requests to anything but files and to what the page
    made itself fail the test.
    """
    contexts, trouble = [], []

    def open_(
        name: str, hash: str = "", *, scheme: str = "light", width: int = 1280, **more: Any
    ) -> Any:
        size = {"width": width, "height": 740 if width < 500 else 900}
        more = {"viewport": size, "color_scheme": scheme, **more}
        context = browser.new_context(offline=True, **more)
        contexts.append(context)
        context.set_default_timeout(600_000)  # to end a hang: others may keep this machine busy
        tab = context.new_page()
        tab.on("pageerror", lambda error: trouble.append(f"{name}: {error}"))
        tab.on("console", lambda message: trouble.append(f"{name}: {message.text}"))

        def asked(request: Any) -> None:
            if not request.url.startswith(("file:", "data:", "blob:")):
                trouble.append(f"{name} asks for {request.url}")

        tab.on("request", asked)
        tab.goto((EXPLORE / f"{name}.html").as_uri() + hash)
        tab.wait_for_selector("html[data-ready]")
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert not trouble, trouble
