"""Helpers for the cells of the notebooks: choices by data set, progress bars, short errors."""

import sys
from collections.abc import Iterable, Iterator, Sized
from importlib.util import find_spec
from typing import Any, TypeVar

from fltoolkit_course.done import saved_edition

T = TypeVar("T")
EARLY = (
    "Nothing was measured yet: the training above was stopped before its first evaluation. "
    "Run its cell again and let it go on a little longer."
)


class InWords(ValueError):
    """An error that the reader can correct. Its text says how; no traceback is shown."""


def by_dataset(dataset: str, /, **values: T) -> T:
    """The value for a data set; "fashion_mnist" takes the one of "mnist" if it has none.

    >>> by_dataset("fashion_mnist", digits=100, mnist=15)
    15

    Raises:
        InWords: there is no value for this data set; the text names the data sets that have one.
    """
    if "mnist" in values:
        values.setdefault("fashion_mnist", values["mnist"])
    if dataset not in values:
        names = " or ".join(f'"{name}"' for name in values)
        raise InWords(f"DATASET = {dataset!r} is not a data set of this notebook. Write {names}.")
    return values[dataset]


def need(rows: T) -> T:
    """Return ``rows``; raises `InWords` if there are none because training was stopped too early.

    >>> need([0.93, 0.95])
    [0.93, 0.95]
    """
    if isinstance(rows, Sized) and len(rows) == 0:
        raise InWords(EARLY)
    return rows


def progress_bar(items: Iterable[T], doing: str, total: int | None = None) -> Iterator[T]:
    """Yield the items, and show while the cell runs what it is doing and how much is done.

    The bar is one line of text, which is removed at the end, also if the cell shows pictures while
    it runs. Saved notebooks have none.

    Args:
        items: what to go through; an item that is a text is shown beside the bar.
        doing: what the cell is doing, e.g. "training with each codec".
        total: how many items there are, if ``items`` has no length.

    >>> list(progress_bar([1, 2], "counting"))
    [1, 2]
    """
    if find_spec("tqdm") is None:  # it is in fltoolkit[lab], and a cell works without
        yield from items
        return
    from tqdm import tqdm

    hidden = saved_edition()
    in_notebook = getattr(_shell(), "kernel", None) is not None
    file = _OneOutput() if in_notebook and not hidden else sys.stderr
    with tqdm(items, doing, total, leave=False, file=file, ncols=90, disable=hidden) as bar:
        for item in bar:
            if isinstance(item, str):
                bar.set_postfix_str(item)
            yield item


class _OneOutput:
    """A file for tqdm: one output of the cell, in which each text replaces the one before."""

    encoding = "utf-8"

    def __init__(self) -> None:
        from IPython.display import display

        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def write(self, text: str) -> None:
        self._handle.update({"text/plain": text.strip()}, raw=True)

    def flush(self) -> None:
        """Nothing waits: each text is shown at once."""


def show_errors_in_words() -> None:
    """In IPython, show one line instead of a traceback for `InWords` and for the stop button."""
    if shell := _shell():
        shell.set_custom_exc((KeyboardInterrupt, InWords), _one_line)


def _shell() -> Any:
    """IPython's shell; None outside IPython. This does not import IPython."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def _one_line(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    traceback: Any,
    tb_offset: int | None = None,
) -> None:
    """What IPython calls instead of showing a traceback."""
    if isinstance(error, KeyboardInterrupt):
        print("Stopped. What was recorded until here is kept, and the next cells work with it.")
    else:
        print(error)
