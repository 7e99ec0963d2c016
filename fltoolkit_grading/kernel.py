"""Runs a notebook's cells behind the fence: cells come in as standard input, results go out.

Both directions are frames: one letter, a length, and text. To this program come ``x`` (run this
cell) and ``i`` (interrupt it); from it come

    r  ready: what the arguments name is imported
    o  a part of what the cell printed
    e  the error with which the cell stopped
    d  done: the number of the cell, from 0

The other end, worker.py, believes nothing: a student's code runs in this process and can write what
it likes. IPython runs the cells, so magics work; what a cell displays, other than by printing, is
dropped. !commands, %pip and imports from google.colab work, too; the last of them do nothing here.
"""

import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import io
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import types
from typing import Any, BinaryIO

HEADER = struct.Struct("<cI")
MOST = 1 << 16  # bytes of text in a frame


def frame(kind: bytes, text: str = "") -> bytes:
    """The bytes of a frame."""
    content = text.encode(errors="replace")
    return HEADER.pack(kind, len(content)) + content


class _Nothing(types.ModuleType):
    """A module of Colab's: whatever is taken from it can be called, and does nothing."""

    __path__: list[str] = []  # noqa: RUF012 (it is a package to Python)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name)

    def __call__(self, *_: Any, **__: Any) -> "_Nothing":
        return self


class _Colab(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `_Nothing` for google.colab, which is only where Colab is."""

    def find_spec(self, name: str, *_: Any) -> Any:
        mine = name == "google" or name == "google.colab" or name.startswith("google.colab.")
        return importlib.util.spec_from_loader(name, self, is_package=True) if mine else None

    def create_module(self, spec: Any) -> Any:
        return _Nothing(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


class _Results(io.TextIOBase):
    """Standard output of the cells, and all other frames."""

    encoding = "utf-8"

    def __init__(self, number: int):
        self.number, self.lock = number, threading.RLock()

    def send(self, kind: bytes, text: str = "") -> None:
        content = frame(kind, text)
        with self.lock:
            while content:
                try:
                    content = content[os.write(self.number, content) :]
                except OSError:  # the pipe is closed: nobody will ever get a result
                    os._exit(1)

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        for start in range(0, len(text), MOST // 4):  # a character takes up to four bytes
            self.send(b"o", text[start : start + MOST // 4])
        return len(text)

    def writable(self) -> bool:
        return True


def main() -> None:
    """Import what a notebook needs, then run cells until standard input ends."""
    commands, results = os.fdopen(os.dup(0), "rb"), _Results(os.dup(1))
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    try:
        gc.disable()  # imports leave hardly any garbage, and to seek it takes a fifth of their time
        shell = _shell()
        for name in sys.argv[1:]:
            importlib.import_module(name)  # torch takes two seconds, which are not the student's
        gc.freeze()
        gc.enable()
    except BaseException as error:
        results.send(b"e", f"{type(error).__name__}: {error}"[:500])
        raise
    # a grader that was started in the background ignores it, and so would this process
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cells: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_receive, args=(commands, cells), daemon=True).start()
    sys.stdout, sys.stderr = results, open(os.devnull, "w")  # noqa: SIM115 (to the end)
    sys.meta_path.append(_Colab())
    results.send(b"r")
    count = 0
    while True:
        with contextlib.suppress(KeyboardInterrupt):  # it came after the cell had ended
            source = cells.get()
            try:
                why = _run(shell, source)
            except KeyboardInterrupt:
                why = "KeyboardInterrupt: "
            if why:
                results.send(b"e", why)
            results.send(b"d", str(count))
            count += 1


def _receive(commands: BinaryIO, cells: "queue.Queue[str]") -> None:
    """Read frames until there are no more, which means that the grader has ended."""
    while len(header := commands.read(HEADER.size)) == HEADER.size:
        kind, length = HEADER.unpack(header)
        source = commands.read(length).decode()
        if kind == b"x":
            cells.put(source)
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    os._exit(0)


def _run(shell: Any, source: str) -> str:
    """Run a cell; returns its error as text, or an empty text."""
    result = shell.run_cell(source, store_history=False)
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return ""
    try:
        return f"{type(error).__name__}: {error}"[:2000]
    except Exception:  # a student's exception may have no text
        return f"{type(error).__name__}: "[:2000]


def _nothing(*_: Any, **__: Any) -> None:
    """In place of what would show something."""


def _shell() -> Any:
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Silent(DisplayHook):
        write_output_prompt = write_format_data = _nothing

    class Nowhere(DisplayPublisher):
        publish = _nothing

    class Shell(InteractiveShell):
        def system(self, command: str) -> None:
            """Run a command and print its text; IPython would need a terminal for that."""
            settings = {**os.environ, "PIP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
            how |= {"stdout": subprocess.PIPE, "text": True, "errors": "replace", "env": settings}
            done = subprocess.run(self.var_expand(command, depth=1), shell=True, **how)
            print(done.stdout, end="")
            self.user_ns["_exit_code"] = done.returncode

        enable_gui = showtraceback = showsyntaxerror = _nothing

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.displayhook_class = Silent
    settings.InteractiveShell.display_pub_class = Nowhere
    return Shell.instance(config=settings)


if __name__ == "__main__":
    main()
