"""Pages and scripts of docs/explore in Chromium, from disk and with the network off."""

import json
import time
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
def context() -> Iterator[Any]:
    """What a module's pages share: with one of its own, a page costs three times as much."""
    with labserver.browser() as started:
        context = started.new_context(offline=True)
        context.set_default_timeout(600_000)  # to end a hang: others may keep this machine busy
        context.new_page().goto((EXPLORE / "explore.css").as_uri())  # the process of files stays
        yield context


@pytest.fixture(scope="module")
def call(context: Any, tmp_path_factory: Any) -> Call:
    """``call(code, value)`` runs ``(explore, value) => ...`` behind the scripts of a page.

    Values travel as JSON, in which every number of float32 keeps its bits, and as one text:
    Playwright would look at each number.
    """
    page = tmp_path_factory.mktemp("scripts") / "page.html"
    tags = "".join(f'<script src="{(EXPLORE / name).as_uri()}"></script>' for name in SCRIPTS)
    page.write_text(f"<!doctype html>{tags}<script>{AFTERWARDS}</script>")
    tab = context.new_page()
    trouble: list[str] = []
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.goto(page.as_uri())
    assert not trouble, trouble
    run = "text => JSON.stringify(({})(explore, JSON.parse(text)))"
    return lambda code, value: json.loads(tab.evaluate(run.replace("{}", code), json.dumps(value)))


def slide(tab: Any, control: str, place: int) -> None:
    """Put a slider on a stop, as dragging it does."""
    tab.evaluate(
        "([id, place]) => { const c = document.getElementById(id); c.value = place;"
        " c.dispatchEvent(new Event('input', {bubbles: true})); }",
        [control, place],
    )


@pytest.fixture(scope="module")
def trouble(context: Any) -> list[str]:
    """Errors of the first page's scripts, words on the console, and requests to anywhere else."""
    (tab,), found = context.pages, []
    ours = ("file:", "data:", "blob:")
    tab.on("pageerror", lambda error: found.append(f"{tab.url}: {error}"))
    tab.on("console", lambda message: found.append(f"{tab.url}: {message.text}"))
    tab.on("request", lambda request: request.url.startswith(ours) or found.append(request.url))
    return found


@pytest.fixture
def open_page(context: Any, trouble: list[str]) -> Iterator[Open]:
    """``open_page("pareto", "#data=digits", scheme="dark", width=360)``: as it lies in the folder.

    It takes the place of what was open before, and leaves nothing there. Trouble fails the test.
    """
    tab = context.pages[0]
    tab.mouse.move(0, 0)
    trouble.clear()

    def open_(
        name: str, hash: str = "", *, scheme: str = "light", width: int = 1280, **more: int
    ) -> Any:
        height = 740 if width < 500 else 900
        tab.set_viewport_size({"width": width, "height": height, **more})
        tab.emulate_media(color_scheme=scheme)
        anew = f"?{time.monotonic_ns()}"  # by another hash alone, nothing would be loaded
        tab.goto((EXPLORE / f"{name}.html").as_uri() + anew + hash)
        tab.wait_for_selector("html[data-ready]")
        return tab

    yield open_
    tab.evaluate("localStorage.clear()")
    assert not trouble, trouble
