"""JupyterLab on a loopback port with settings of its own, and a browser page to drive it.

``with lab(folder) as server, page() as tab: notebook = open_notebook(tab, server, "a.ipynb")``,
then ``notebook.run_all()``, ``notebook.wait_until_idle()`` and ``notebook.outputs(cell)``.
"""

import ast
import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

ARTIFACTS = Path(__file__).parents[2] / "test-artifacts"


class Server(NamedTuple):
    url: str
    token: str


def chromium() -> str:
    """The path of Chromium; without one the test is skipped, or fails if it must not be."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = [os.environ.get("CHROMIUM"), "/usr/bin/chromium", *map(shutil.which, names)]
    path = next((path for path in found if path and os.path.exists(path)), None)
    return path or absent("no Chromium: install it, or put its path into CHROMIUM")


def absent(reason: str) -> Any:
    """Skip, or fail where FLTOOLKIT_REQUIRE_BROWSER says that these tests must run."""
    (pytest.fail if os.environ.get("FLTOOLKIT_REQUIRE_BROWSER") else pytest.skip)(reason)


@contextlib.contextmanager
def lab(
    folder: Path, seconds: float = 600, python: str = sys.executable, **variables: str
) -> Iterator[Server]:
    """JupyterLab with its root in ``folder``; nothing of the user's own Jupyter is touched."""
    token = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="fltoolkit-lab-") as name:
        home = Path(name)
        own = {key: str(home / key.lower()) for key in _FOLDERS}
        own |= {"JUPYTER_TOKEN": token, "OMP_NUM_THREADS": "1"}
        own["JUPYTER_RUNTIME_DIR"] = str(home / "run")  # short, since a socket's path must be
        env = {**os.environ, **own, **variables}
        settings = home / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
        # ports that are looked for may be taken by others meanwhile: of kernels there are none,
        # and the server tries the next ones and writes down which it got
        command = [python, "-m", "jupyter", "lab", "--no-browser", "--transport=ipc"]
        command += [f"--port={20_000 + os.getpid() % 10_000}", "--ServerApp.port_retries=200"]
        command += ["--ip=127.0.0.1", "--LabApp.news_url=None"]
        command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
        command += ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
        with open(home / "log", "w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=folder)
            try:
                yield _started(own["JUPYTER_RUNTIME_DIR"], token, process, home / "log", seconds)
            finally:
                process.terminate()
                try:
                    process.wait(120)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


_FOLDERS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
    "MPLCONFIGDIR",
)


def _started(
    folder: str, token: str, process: subprocess.Popen, log: Path, seconds: float
) -> Server:
    """The server, as soon as it answers at the address that it has written down."""
    end = time.monotonic() + seconds
    while True:
        try:
            (about,) = Path(folder).glob("jpserver-*.json")
            server = Server(json.loads(about.read_text())["url"].rstrip("/"), token)
            urllib.request.urlopen(f"{server.url}/api/status?token={token}", timeout=60)
            return server
        except (OSError, ValueError) as error:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no JupyterLab:\n{log.read_text()[-4000:]}") from error
            time.sleep(0.2)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent('no playwright: pip install "fltoolkit[dev]"')
    # The sandbox needs rights that containers lack; only pages of this machine are opened.
    options = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    path = chromium()
    with sync_playwright() as playwright:
        launch = playwright.chromium.launch
        with launch(executable_path=path, args=options, timeout=600_000) as started:
            yield started


# JupyterLab's own parts raise them, rarely, on a busy machine: no script of ours calls removeChild,
# and what was asked of a kernel just before it was started again is canceled
_OF_THE_LAB = ("Failed to execute 'removeChild' on 'Node'", "Canceled future for ")


@contextlib.contextmanager
def page(context: Any = None, width: int = 1280, height: int = 1000) -> Iterator[Any]:
    """The page of a context or of a browser of its own; errors of its scripts fail the test."""
    if context is None:
        with browser() as started, page(started.new_context(), width, height) as tab:
            yield tab
        return
    tab = context.pages[0] if context.pages else context.new_page()
    tab.set_default_timeout(600_000)  # to end a hang: others may keep this machine busy
    tab.set_viewport_size({"width": width, "height": height})
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    found = [error for error in errors if not any(words in error for words in _OF_THE_LAB)]
    assert not found, found


class Notebook(NamedTuple):
    """A notebook open in JupyterLab. Cells are numbered from 0, Markdown cells included."""

    page: Any

    def run_all(self) -> None:
        """Start all cells; returns at once."""
        self.page.evaluate("() => { jupyterapp.commands.execute('notebook:run-all-cells'); }")

    def run_cell(self, cell: int) -> None:
        """Run one cell and wait for its end."""
        self.page.evaluate(
            """async cell => { jupyterapp.shell.currentWidget.content.activeCellIndex = cell;
                               await jupyterapp.commands.execute('notebook:run-cell'); }""",
            cell,
        )

    def run_with_needed(self, cell: int) -> None:
        """Run one cell, and before it those above that define a name which it needs."""
        for number in needed(
            [str(c["source"]) * (c["cell_type"] == "code") for c in self.cells()], cell
        ):
            self.run_cell(number)

    def restart(self) -> None:
        """A new kernel for the same page, and no outputs.

        Not the same one restarted: on a busy machine the server then believes that it has died.
        """
        self.page.evaluate(
            """async () => {
                 await jupyterapp.commands.execute('notebook:clear-all-cell-outputs');
                 const { sessionContext } = jupyterapp.shell.currentWidget;
                 await sessionContext.changeKernel({ name: sessionContext.session.kernel.name });
                 await sessionContext.session.kernel.info; }"""
        )
        assert self.ask("print('a new kernel')") == "a new kernel"

    def wait_until_idle(self, seconds: float = 600) -> None:
        """Wait until every code cell has run; the first error fails the test with its text."""
        end = time.monotonic() + seconds
        while True:
            errors, done, all_ = self.page.evaluate(_HOW_FAR)
            if errors:
                pytest.fail(errors[0])
            if done == all_ and self._idle():
                return
            if time.monotonic() > end:
                pytest.fail(f"{done} of {all_} code cells had run after {seconds} s")
            self.page.wait_for_timeout(100)

    def cells(self) -> list[dict[str, Any]]:
        """All cells as the notebook file would hold them now, outputs included."""
        return self.page.evaluate(
            "() => jupyterapp.shell.currentWidget.context.model.toJSON().cells"
        )

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        return self.page.evaluate(
            """cell => jupyterapp.shell.currentWidget.context.model.cells.get(cell)
                        .toJSON().outputs ?? []""",
            cell,
        )

    def words(self) -> str:
        """The plain text of all results and displays; what moves changes it."""
        return self.page.evaluate(_WORDS)

    def show(self, cell: int) -> Any:
        """Scroll to a cell; returns the locator of its output area."""
        self.page.evaluate(
            """async cell => { const list = jupyterapp.shell.currentWidget.content;
                               list.activeCellIndex = cell;
                               await list.scrollToItem(cell, 'start'); }""",
            cell,
        )
        return self.page.locator(f".jp-Cell[data-windowed-list-index='{cell}'] .jp-OutputArea")

    def ask(self, code: str) -> str:
        """What ``code`` prints in the kernel."""
        return self.page.evaluate(
            """async code => {
                 const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                 for (;;) {
                   const future = kernel.requestExecute({code, store_history: false});
                   let printed = '';
                   future.onIOPub = message => {
                     printed += message.content.text ?? message.content.evalue ?? ''; };
                   try {
                     const reply = await future.done;  // aborted behind a cell that was stopped
                     if (reply.content.status !== 'aborted') return printed.trim();
                   } catch {  // canceled by a restart that had not ended
                     await new Promise(resolve => setTimeout(resolve, 100)); } } }""",
            code,
        )

    def save(self) -> None:
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")

    def theme(self, name: str) -> None:
        """Change JupyterLab's colours: "Light" or "Dark"."""
        self.page.evaluate(
            """async theme => {
                 await jupyterapp.commands.execute('apputils:change-theme', {theme}); }""",
            f"JupyterLab {name}",
        )
        self.page.wait_for_function(
            "theme => document.body.dataset.jpThemeName === theme", arg=f"JupyterLab {name}"
        )
        self.page.evaluate(_TWO_FRAMES)

    def screenshot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def themed(self, name: str) -> None:
        """Screenshots in light and dark, and in a window of 900 pixels."""
        for theme in ("Dark", "Light"):
            self.theme(theme)
            self.page.locator("#jupyterlab-splash").wait_for(state="hidden")
            self.screenshot(f"{name}_{theme.lower()}")
        self.page.set_viewport_size({"width": 900, "height": 1000})
        self.page.wait_for_timeout(200)
        self.screenshot(f"{name}_900px")
        self.page.set_viewport_size({"width": 1280, "height": 1000})

    def _idle(self) -> bool:
        return self.page.evaluate(
            "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
        )


def needed(sources: list[str], last: int) -> list[int]:
    """The numbers of the cells that must run for cell ``last``, itself included, in their order.

    >>> needed(["a = 1", "b = 2", "c = a", "print(c)"], 3)
    [0, 2, 3]
    """
    found, wanted = [last], set()
    for number in range(last, -1, -1):
        code = ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", sources[number], flags=re.MULTILINE))
        nodes = list(ast.walk(code))
        made = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        made |= {(n.asname or n.name).split(".")[0] for n in nodes if isinstance(n, ast.alias)}
        made |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if number == last or made & wanted:
            found.append(number)
            wanted = wanted - made | {n.id for n in nodes if isinstance(n, ast.Name)}
    return sorted(set(found))


def write_notebook(path: Path, *sources: str) -> None:
    """A notebook with these cells, which have not run."""
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in sources]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def open_notebook(page: Any, server: Server, path: str, anew: bool = False) -> Notebook:
    """Open ``path`` (relative to the server's folder) and wait until its kernel answers.

    Whatever is run before that would silently do nothing. A page that has JupyterLab keeps it, and
    closes what it shows, unless it is to be loaded ``anew``: that takes five seconds of computing.
    """
    if anew or not page.evaluate("() => !!window.jupyterapp"):
        page.goto(f"{server.url}/doc/tree/{path}?token={server.token}")
        page.wait_for_function("() => !!window.jupyterapp")
    else:
        page.evaluate(_INSTEAD, path)
    page.evaluate(_READY)
    return Notebook(page)


def wait_for(page: Any, what: Any, seconds: float = 600) -> None:
    """Wait until ``what()`` is true; the page goes on meanwhile."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds} s")
        page.wait_for_timeout(150)


def saved_outputs(path: Path, cell: int = 0) -> list[set[str]]:
    """The kinds of each output of a cell, as the file has them; one empty kind if there is none."""
    outputs = nbformat.read(path, 4).cells[cell].outputs
    return [set(output.get("data", ())) for output in outputs] or [set()]


_TWO_FRAMES = """async () => {
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame); }"""

_HOW_FAR = """() => {
  const cells = [...jupyterapp.shell.currentWidget.context.model.cells], errors = [];
  const code = cells.filter(c => c.type === 'code' && c.sharedModel.getSource());
  cells.forEach((cell, number) => { for (let k = 0; k < (cell.outputs?.length ?? 0); k++) {
    const output = cell.outputs.get(k);
    if (output.type === 'error') { const {ename, evalue} = output.toJSON();
      errors.push(`cell ${number}: ${ename}: ${evalue}`); } } });
  return [errors, code.filter(c => c.executionCount).length, code.length]; }"""

_WORDS = """() => [...jupyterapp.shell.currentWidget.context.model.cells].flatMap(cell =>
  Array.from({length: cell.outputs?.length ?? 0},
             (_, k) => cell.outputs.get(k).data?.['text/plain'] ?? '')).join('\\n')"""

_INSTEAD = """async path => {
  for (const shown of [...jupyterapp.shell.widgets('main')]) shown.dispose();
  await jupyterapp.commands.execute('docmanager:open', {path}); }"""

END_KERNEL = """async () => {
  await window.jupyterapp?.shell.currentWidget?.sessionContext?.shutdown?.(); }"""

_READY = """async () => {
  await jupyterapp.restored;
  for (let tries = 0; tries < 6000; tries++) {
    const panel = jupyterapp.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    if (kernel?.connectionStatus === 'connected' && panel.context.isReady) {
      await panel.sessionContext.ready;
      await kernel.info;
      return;
    }
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  throw new Error('no kernel after ten minutes: does the notebook name one (metadata.kernelspec)?');
}"""
