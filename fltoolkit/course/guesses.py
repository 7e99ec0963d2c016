"""The reader's guess beside the measured value. A wrong guess raises no error."""

from collections.abc import Callable
from typing import Any

from fltoolkit.course._reading import note, read_answer
from fltoolkit.course._words import distance, factor, say
from fltoolkit.course.done import Guess, saved_edition

__all__ = ["Predict", "predict"]

_FIRST = (
    "  No guess yet. Replace None by yours and run this cell again: a wrong guess\n"
    "  costs nothing, and it makes the result stick. (predict.skip() shows all.)"
)
_ABOVE = (
    "  No guess yet. It is measured: write your guess where the question stands, and run that\n"
    "  cell again. It answers at once. (predict.skip() shows all.)"
)


class Predict:
    """Ask for a guess, then show the measured value; ``predict.skip()`` shows it without a guess.

    Args:
        remember: called with the question and the `Guess` after each guess. If guessing was
            skipped, ``guessed`` of the `Guess` is empty.

    >>> predict("How many bytes go up?", 50_000, 163_854, "B")
    How many bytes go up?
      your guess: 50,000 B
      measured:   163,854 B
      Your guess is 3.3 times too small.
    """

    def __init__(self, remember: Callable[[str, Guess], None] = lambda question, guess: None):
        self._remember, self._skipping = remember, False
        self._found: dict[str, tuple[Any, str]] = {}  # what was measured, by question
        self._asked: set[str] = set()  # questions whose cell measures nothing
        self.shown = False  # whether the latest call showed its measured value

    def skip(self, skip: bool = True) -> None:
        """From now on show measured values without a guess; ``skip(False)`` ends that."""
        self._skipping = skip
        print(
            "Measured values are shown without a guess." if skip else "A guess comes first again."
        )

    def ask(self, question: str, guess: Any, unit: str = "") -> None:
        """Ask in a cell of its own, which measures nothing and so answers at once.

        A later cell measures and calls ``predict`` with the same question. If that has happened
        already, a guess that is made now is compared at once: nothing is measured again.

        Args:
            question: what will be measured, one sentence.
            guess: the reader's, as in a call of `Predict`; None if there is none yet.
            unit: of the guess, e.g. "B".

        >>> predict.ask("How many bytes come down?", 50_000, "B")
        How many bytes come down?
          your guess: 50,000 B. The next cells measure it.
        >>> predict("How many bytes come down?", 50_000, 163_854, "B")
        How many bytes come down?
          your guess: 50,000 B
          measured:   163,854 B
          Your guess is 3.3 times too small.
        """
        self._asked.add(question)
        if question in self._found:
            return self(question, guess, *self._found[question])
        print(question)
        if guess is None or guess is ...:
            silent = self._skipping or saved_edition()
            print("  The next cells measure it." if silent else _FIRST)
            return None
        try:
            number = read_answer(guess, 0.0, unit) if unit and isinstance(guess, str) else guess
        except ValueError as error:
            print(f"  {error}")
            return None
        print(f"  your guess: {f'{say(number)} {unit}'.rstrip()}. The next cells measure it.")
        return None

    def __call__(self, question: str, guess: Any, measured: Any, unit: str = "") -> None:
        """Print the reader's guess beside the measured value, and how far off it was.

        If the guess is None (or ``...``), the measured value is not printed, so that the reader
        guesses first. After `skip`, and in the saved notebooks, it is printed without a guess.

        Args:
            question: what is measured, one sentence.
            guess: the reader's: a number, or a text of which the number is read: "28 bits". A
                guess that cannot be read shows nothing, and is not kept.
            measured: the value that was measured.
            unit: written after both values, e.g. "B".
        """
        self._found[question] = measured, unit
        print(question)
        made = guess is not None and guess is not ...
        typed = guess
        try:
            guess = read_answer(typed, measured, unit) if made else None
        except ValueError as error:
            made = False
            print(f"  {error}")
        self.shown = made or self._skipping or saved_edition()
        if not self.shown:
            print(_ABOVE if question in self._asked else _FIRST)
            return
        guessed = f"{say(guess)} {unit}".rstrip() if made else ""
        found = f"{say(measured)} {unit}".rstrip()
        print(f"  your guess: {guessed or 'no guess was made'}")
        print(f"  measured:   {found}")
        off = distance(guess, measured) if made else ""
        off = f"{off} {note(typed, measured)}".rstrip()
        if made:
            print(f"  {off}")
        self._remember(question, Guess(guessed, found, off, factor(guess, measured)))


predict = Predict()
