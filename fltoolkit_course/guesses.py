"""The reader's guess beside the measured value. A wrong guess raises no error.

A guess that is impossible, such as 950 of 100 or "ten", is refused with a sentence and not kept.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fltoolkit_course._reading import number, read_answer
from fltoolkit_course.comparison import distance, factor, same, say
from fltoolkit_course.done import Guess, saved_edition

__all__ = ["Between", "Predict", "predict"]


class Between(NamedTuple):
    """The numbers that may be guessed.

    >>> print(Between(0, 100))
    a number from 0 to 100
    """

    low: float = -math.inf
    high: float | None = math.inf  # None: the number in the question, "Right, of 100 new images?"

    def __str__(self) -> str:
        low, high = self.low, self.high
        if high is None or high == math.inf:
            return "a number" if low == -math.inf else f"a number that is at least {low:g}"
        start = "that is at most" if low == -math.inf else f"from {low:g} to"
        return f"a number {start} {high:g}"


ANY, AT_LEAST_0, PERCENT, SHARE = Between(), Between(0), Between(0, 100), Between(0, 1)
OF_ALL = Between(0, None)

_DIGITS = re.compile(r"\d+(?:,\d{3})*|\{\}")
_FIRST = (
    "  No guess yet. Replace None by yours and run this cell again: a wrong guess\n"
    "  costs nothing, and it makes the result stick."
)


def without_numbers(question: str) -> str:
    """A question with ``{}`` for each number in it, since some vary from run to run."""
    return _DIGITS.sub("{}", question)


class Predict:
    """Ask for a guess, then show the measured value: at the second time also without a guess.

    Args:
        remember: called with the question and the `Guess` when a measured value is shown. Without
            a guess, ``guessed`` of the `Guess` is empty.
        possible: for each question what may be guessed: numbers, or the words to choose from. A
            number in a question may be written ``{}``, if it varies. To a question that is not
            among them everything is possible.

    >>> predict("How many bytes go up?", 50_000, 163_854, "B")
    How many bytes go up?
      your guess: 50,000 B
      measured:   163,854 B
      Your guess is 3.3 times too small.
    >>> ask = Predict(possible={"Right, of {} images?": OF_ALL})
    >>> ask("Right, of 100 images?", 950, 97)
    Right, of 100 images?
      Your guess is 950. That is not possible. Write a number from 0 to 100 and run this cell again.
    """

    def __init__(
        self,
        remember: Callable[[str, Guess], None] = lambda question, guess: None,
        possible: Mapping[str, Between | tuple[str, ...]] | None = None,
    ):
        self._remember = remember
        self._possible = {without_numbers(key): one for key, one in (possible or {}).items()}
        self._found: dict[str, tuple[Any, str]] = {}  # what was measured, by question
        self._asked: dict[str, Any] = {}  # guesses of questions whose cell measures nothing
        self._told: set[str] = set()  # the questions whose measured value was shown
        self._met: set[str] = set()  # the questions that were asked where they are measured
        self.shown = False  # whether the latest call showed its measured value

    def told(self, *questions: str) -> bool:
        """Whether the measured values of all these questions were shown in this session."""
        return self._told.issuperset(questions)

    def ask(self, question: str, guess: Any, unit: str = "") -> None:
        """Ask in a cell of its own, which measures nothing and so answers at once.

        A later cell measures and calls ``predict`` with the same question. If that has happened
        already, a guess that is made now is compared at once: nothing is measured again.

        The arguments are those of a call of `Predict`.
        """
        self._asked[question] = guess
        if question in self._found:
            return self._compare(question, guess, *self._found[question], here=True)
        print(question)
        if guess is None or guess is ...:
            print("  The next cells measure it." if saved_edition() else _FIRST)
        elif (read := self._read(question, guess, 0.0 if unit else None, unit)) is not None:
            print(f"  your guess: {f'{say(read)} {unit}'.rstrip()}. The next cells measure it.")
        return None

    def __call__(self, question: str, guess: Any, measured: Any, unit: str = "") -> None:
        """Print the reader's guess beside the measured value, and how far off it was.

        If the guess is None (or ``...``) in the cell that asks, the measured value is not printed
        at the first time, so that the reader guesses first. In the saved notebooks it is.

        Args:
            question: what is measured, one sentence.
            guess: the reader's: a number, or a text of which the number is read: "28 bits". A
                guess that cannot be read is not kept. A question that was asked with `ask` has
                its own guess, and this one is not used.
            measured: the value that was measured.
            unit: written after both values, e.g. "B".
        """
        self._found[question] = measured, unit
        own = self._asked.get(question, guess)  # a variable may hold another question's by now
        self._compare(question, own, measured, unit, here=question not in self._asked)

    def _compare(self, question: str, guess: Any, measured: Any, unit: str, *, here: bool) -> None:
        """The lines of a call; ``here``: whether the guess is written in the cell that runs."""
        print(question)
        none, first = guess is None or guess is ..., here and question not in self._met
        self._met.add(question)
        read = None if none else self._read(question, guess, measured, unit, here)
        made = read is not None
        self.shown = made or not here or (none and not first) or saved_edition()
        if none and not self.shown:
            print(_FIRST)
        if not self.shown:
            return
        self._told.add(question)
        guessed = f"{say(read)} {unit}".rstrip() if made else ""
        found = f"{say(measured)} {unit}".rstrip()
        if made or saved_edition():
            print(f"  your guess: {guessed or 'no guess was made'}")
        elif none:
            print("  You have not guessed; here is the measurement all the same.")
        print(f"  measured:   {found}")
        off = distance(read, measured, unit=self._step(question, unit)) if made else ""
        if made:
            print(f"  {off}")
        self._remember(question, Guess(guessed, found, off, factor(read, measured)))

    def _read(self, question: str, typed: Any, measured: Any, unit: str, here: bool = True) -> Any:
        """The guess as a value; or None, after a sentence that says what is possible instead."""
        try:
            return self._value(question, typed, measured, unit)
        except ValueError as error:
            again = "and run this" if here else "where the question stands, and run that"
            print(f"  {error} {again} cell again.")
            return None

    def _step(self, question: str, unit: str) -> str:
        """The unit of a difference: per cents differ by points, and images by so many "of 100"."""
        high = getattr(self._possible.get(without_numbers(question)), "high", 0)
        if high is None:
            return f"of {_DIGITS.findall(question)[0]}"
        return "points" if high == 100 or unit in ("%", "points") else unit

    def _value(self, question: str, typed: Any, measured: Any, unit: str) -> Any:
        """The guess as a value. Raises ValueError, which says what is possible and what to do."""
        possible = self._possible.get(without_numbers(question))
        if possible is None:
            try:
                return typed if measured is None else read_answer(typed, measured, unit)
            except ValueError as error:
                raise _refused(typed, str(error), "a number") from None
        if not isinstance(possible, Between):
            if found := [word for word in possible if same(word, typed)]:
                return found[0]
            wanted = f"one of {', '.join(possible)}"
            raise _refused(typed, "It is none of the answers.", wanted)
        low, high = possible
        if high is None:
            high = float(_DIGITS.findall(question)[0].replace(",", ""))
        # as long as nothing is measured, '97 %' of 100 images are 97 of them
        like = number(measured) or (high if math.isfinite(high) else 0.0)
        wanted = f"{Between(low, high)}{unit and f', in {unit},'}"
        try:
            guess = number(read := read_answer(typed, like, unit))
        except ValueError as error:
            raise _refused(typed, str(error), wanted) from None
        if guess is None or not math.isfinite(guess):
            raise _refused(typed, "That is no finite number.", wanted)
        whole = 100 if unit == "%" else high if possible.high is None else 0
        if whole and 0 < guess < 1 <= like and "%" not in str(typed):
            meant = f"{say(whole * guess)} {unit}".rstrip()
            raise _refused(typed, f"Did you mean {meant}?", f"'{meant}' or '{say(guess)} %'")
        if not low <= guess <= high:
            raise _refused(typed, "That is not possible.", wanted)
        return read


def _refused(typed: Any, why: str, wanted: str) -> ValueError:
    guess = repr(typed) if isinstance(typed, str) else say(typed)
    return ValueError(f"Your guess is {guess}. {why} Write {wanted}")


predict = Predict()
