"""Helpers for the cells of the notebooks: choices by data set, progress bars, short errors."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from traceback import walk_tb
from typing import Any, TypeVar

from fltoolkit_course.done import came, cut_short, saved_edition

T = TypeVar("T")
EARLY = (
    "Nothing was measured yet: the training above was stopped before its first evaluation. "
    "Run its cell again and let it go on a little longer."
)


class InWords(ValueError):
    """An error that the reader can correct. Its text says how; no traceback is shown."""


def by_dataset(dataset: str, /, **values: T) -> T:
    """The value for a data set; "fashion_mnist" and "digits_known_writers" take that of their kin.

    >>> by_dataset("fashion_mnist", digits=100, mnist=15)
    15

    Raises `InWords` for another data set; the text names those that have a value.
    """
    if "mnist" in values:
        values.setdefault("fashion_mnist", values["mnist"])
    if "digits" in values:
        values.setdefault("digits_known_writers", values["digits"])
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

    One line of text says so, with the item if it is a text; it is removed at the end. Saved
    notebooks have none. ``total`` is the number of ``items`` that have no length.

    >>> list(progress_bar([1, 2], "counting"))
    [1, 2]
    """
    total = len(items) if isinstance(items, Sized) else total
    show = _line()
    for done, item in enumerate(items):
        of_all = f"{done} of {total}" if total else f"{done}"
        came(doing, done, total)
        show(f"{doing}: {of_all} done{f', now {item}' if isinstance(item, str) else ''}")
        yield item
    came(doing, 0, 0)
    show("")


def _line() -> Callable[[str], object]:
    """What shows a line of text, each in place of the one before: in a cell, or in a terminal."""
    if saved_edition():
        return lambda words: None
    if getattr(shell(), "kernel", None) is None:
        return lambda words: print(f"\r{words:<90}", end="", file=sys.stderr, flush=True)
    from IPython.display import display

    handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda words: handle.update({"text/plain": words}, raw=True)


def show_errors_in_words() -> None:
    """In IPython, show one line instead of a traceback for what a reader can mend.

    That is `InWords`, the stop button, a name that a cell uses before it is known, and a row that
    is missing because a training was stopped.
    """
    if here := shell():
        here.set_custom_exc((KeyboardInterrupt, InWords, NameError, LookupError), _one_line)


def shell() -> Any:
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
    elif isinstance(error, InWords):
        print(error)
    else:
        *_, (last, line) = walk_tb(traceback)
        if isinstance(error, NameError) and last.f_globals is shell.user_ns:
            print(f"{error} (line {line} of its cell). Run the cells above first, from the top.")
            word = f'A word as an answer needs quotes: "{error.name}".'
            print(f"If that does not help, the name is misspelled. {word}")
        elif last.f_globals is shell.user_ns and cut_short():
            print(f"Line {line} of this cell finds no {error}. {cut_short()}")
            print("Let that cell run to its end, and then run this one again.")
        else:  # a defect of a package
            shell.showtraceback((kind, error, traceback))
