"""Functions of docs/explore called from Python: in Node, and in Chromium from disk.

``call(code, value)`` runs ``(explore, value) => ...`` after the scripts of the playground. Values
travel as JSON.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import labserver

EXPLORE = Path(__file__).parents[2] / "docs" / "explore"
SCRIPTS = ("formulas.js", "wire.js", "trainer.js", "data/digits.js")
Call = Callable[[str, Any], Any]

AFTERWARDS = """
explore.trainer = explore.makeTrainer(explore.wire);
explore.treeFrom = (entries) => entries.map(([name, dtype, shape, hex]) => ({ name, dtype, shape,
  data: new explore.wire.ARRAYS[dtype](explore.bytesFrom(hex).buffer) }));
explore.bytesFrom = (hex) => Uint8Array.from(hex.match(/../g) || [], (h) => parseInt(h, 16));
explore.hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
explore.entriesOf = (tree) => tree.map(({ name, dtype, shape, data }) =>
  [name, dtype, shape, explore.hex(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))]);
"""


@contextmanager
def in_node(folder: Path) -> Iterator[Call]:
    """A ``call`` that starts Node anew each time; skips the test where Node is missing."""
    node = shutil.which("node")
    if node is None:
        labserver.absent("no Node: the same test runs in Chromium")
    whole = "\n".join((EXPLORE / name).read_text(encoding="utf-8") for name in SCRIPTS)

    def call(code: str, value: Any) -> Any:
        # one function: scripts share `explore` by name, as in a page
        program = f"{whole}\n{AFTERWARDS}\nreturn ({code})(explore, value);"
        (folder / "program.txt").write_text(program, encoding="utf-8")
        (folder / "value.json").write_text(json.dumps(value), encoding="utf-8")
        run = (
            'const fs = require("fs"), read = (name) => fs.readFileSync(name, "utf8");'
            'const value = JSON.parse(read("value.json"));'
            'const f = new Function("value", read("program.txt"));'
            "const found = f(value);"
            'fs.writeFileSync("found.json", JSON.stringify(found));'
        )
        done = subprocess.run(
            [str(node), "-e", run], cwd=folder, capture_output=True, text=True, env={**os.environ}
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((folder / "found.json").read_text(encoding="utf-8"))

    yield call


@contextmanager
def in_chromium(folder: Path) -> Iterator[Call]:
    """A ``call`` in a page that was opened from disk with the network off."""
    tags = "".join(f'<script src="{(EXPLORE / name).as_uri()}"></script>' for name in SCRIPTS)
    (folder / "page.html").write_text(f"<!doctype html>{tags}<script>{AFTERWARDS}</script>")
    with labserver.browser() as started:
        tab = started.new_context(offline=True).new_page()
        trouble: list[str] = []
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.goto((folder / "page.html").as_uri())

        def call(code: str, value: Any) -> Any:
            found = tab.evaluate(f"(value) => ({code})(explore, value)", value)
            assert not trouble, trouble
            return found

        yield call
