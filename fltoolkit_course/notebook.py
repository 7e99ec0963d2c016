"""A notebook of the course: its guesses, its checks with their answers, its card and its bill.

Each ``nb*.py`` makes one `Notebook` and holds its answers.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fltoolkit.data.datasets import Samples
from fltoolkit_course.bills import Bill, item, lines_until
from fltoolkit_course.comparison import Hint
from fltoolkit_course.comparison import check as compare
from fltoolkit_course.done import (
    Done,
    Guess,
    Table,
    course_folder,
    cut_short,
    read_done,
    remember,
    saved_edition,
)
from fltoolkit_course.guesses import Between, Predict, without_numbers
from fltoolkit_course.running import show_errors_in_words

__all__ = ["Answer", "Notebook"]


class Answer:
    """The answer that a check expects.

    Args:
        expected: the right answer. ``[]`` if ``read`` returns a list of what is missing, in words.
        hints: pairs as in `check`; they are compared with what ``read`` returns.
        tolerance: largest absolute difference that still counts as right.
        read: turns the reader's answer into the value that is compared. If it raises a ValueError,
            the text of the error is printed.
    """

    def __init__(
        self,
        expected: Any,
        *hints: Hint,
        tolerance: float = 0.0,
        read: Callable[[Any], Any] | None = None,
    ):
        self.expected, self.hints, self.tolerance, self.read = expected, hints, tolerance, read


class Notebook:
    """Guesses and checks of one notebook.

    Args:
        number: such as "01"; the key in the file of progress.
        title: the heading of the notebook.
        guesses: the questions that the notebook asks with `predict`, and for each what may be
            guessed, as in `Predict`.
        file: how the name of its file begins, if not with the number.

    >>> notebook = Notebook("99", "Counting", guesses={})
    >>> @notebook.answer("bytes of some float32")
    ... def some_bytes(*, count: int) -> Answer:
    ...     return Answer(4 * count, (count, "Each float32 takes 4 bytes."))
    >>> notebook.check("bytes of some float32", 10, count=10)
    bytes of some float32: not yet. 10 is 4 times too small. Each float32 takes 4 bytes.
    False
    >>> notebook.card()
    99 · Counting
      bytes of some float32  not yet
    0 of 1 checks passed.
    """

    def __init__(
        self,
        number: str,
        title: str,
        *,
        guesses: Mapping[str, Between | tuple[str, ...]],
        file: str = "",
    ):
        self.number, self.title, self.guesses = number, title, guesses
        self.file = file or number
        self.answers: dict[str, Callable[..., Answer]] = {}
        self.predict = Predict(self._guessed, guesses)
        self._done = Done()
        show_errors_in_words()

    def answer(self, name: str) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
        """A decorator for the function that makes the `Answer` of the check ``name``.

        The arguments of the function are the ``facts`` that the notebook gives to `check`.
        """

        def keep(make: Callable[..., Answer]) -> Callable[..., Answer]:
            self.answers[name] = make
            return make

        return keep

    def check(self, name: str, answer: Any, **facts: Any) -> bool:
        """Say whether ``answer`` is right and, if not, how far off it is; True if it is right.

        The right answer is computed from ``facts``, e.g. sizes of the data. Raises ValueError if
        this notebook has no such check.
        """
        if name not in self.answers:
            names = ", ".join(map(repr, self.answers))
            raise ValueError(f"no check {name!r} in notebook {self.number}: choose from {names}")
        if answer is None or answer is ...:
            return compare(name, None, None)
        wanted = self.answers[name](**facts)
        try:
            got = answer if wanted.read is None else wanted.read(answer)
        except Exception as error:  # the answer may be anything, and some checks run it
            words = "" if isinstance(error, ValueError) else "It cannot be tried: "
            print(f"{name}: not yet. {words}{error}")
            return False
        right = compare(name, got, wanted.expected, tolerance=wanted.tolerance, hints=wanted.hints)
        done = self.done()
        done.checks[name] = right or done.checks.get(name, False)
        self._keep(done)
        return right

    def done(self) -> Done:
        """What was done in this notebook, today and before."""
        kept = read_done(course_folder()).get(self.number, Done())
        checks, mine = self._done.checks | kept.checks, self._done.bill or kept.bill
        return Done(self._done.guesses | kept.guesses, checks, mine)

    def bill(
        self,
        what: str,
        record: Mapping[str, Any],
        data: Samples | int,
        why: str = "",
        *,
        measure: str = "accuracy",
    ) -> Bill:
        """Add a line to the bill of the course, and return the bill as far as this notebook.

        A line with the same ``what`` replaces the one from before. Trainings that were stopped
        early are named beside ``why``. The lines are kept beside the guesses. An earlier notebook
        that was not run here has the lines of its saved copy. The arguments and errors are those
        of `bills.item`.
        """
        why, done = f"{why} {cut_short()}".strip(), self.done()
        new = item(what, record, data, why, measure)
        places = [line.what for line in done.bill]
        if what in places:
            done.bill[places.index(what)] = new
        else:
            done.bill.append(new)
        self._keep(done)
        kept = {number: part.bill for number, part in read_done(course_folder()).items()}
        return Bill(lines_until(self.number, kept | {self.number: done.bill}))

    def counts(self, done: Done) -> tuple[int, int]:
        """How many of its guesses were made, and how many of its checks have passed."""
        made = min(len(done.made), len(self.guesses))  # an older edition may have asked more
        return made, sum(name in self.answers for name in done.passed)

    def card(self) -> Table:
        """A table of all guesses and measured values, and of checks that have passed or not."""
        done = self.done()
        guesses = [
            [question, guess.guessed or "no guess", guess.measured, guess.off]
            for question, guess in done.guesses.items()
        ]
        shown = {without_numbers(question) for question in done.guesses}
        open_ = (question for question in self.guesses if without_numbers(question) not in shown)
        guesses += [[question.replace("{}", "..."), "not yet", "", ""] for question in open_]
        checks = [
            [name, "", "", "passed" if done.checks.get(name) else "not yet"]
            for name in self.answers
        ]
        counted, (made, passed) = [], self.counts(done)
        if self.guesses:
            counted.append(f"{made} of {len(self.guesses)} guesses made")
        if self.answers:
            counted.append(f"{passed} of {len(self.answers)} checks passed")
        after = ", ".join(counted)
        after += " (this is the saved copy, in which nobody guesses)" if saved_edition() else ""
        head = ["", "your guess", "measured", "how far off" if guesses else ""]
        ends = [line for line in (after + ".", cut_short()) if line]
        return Table(f"{self.number} · {self.title}", head, guesses + checks, ends)

    def _guessed(self, question: str, guess: Guess) -> None:
        """Keep the first guess only: before a later one the reader has seen the answer."""
        done = self.done()
        if not (question in done.guesses and done.guesses[question].guessed):
            done.guesses[question] = guess
        self._keep(done)

    def _keep(self, done: Done) -> None:
        self._done = done
        remember(course_folder(), self.number, done)
