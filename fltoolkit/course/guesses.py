"""The reader's guess beside the measured value. A wrong guess raises no error."""

from collections.abc import Callable
from typing import Any

from fltoolkit.course._reading import note, read
from fltoolkit.course._words import distance, factor, say
from fltoolkit.course.done import Guess, saved_edition

__all__ = ["Predict", "predict"]


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
        self.shown = False  # whether the latest call showed its measured value

    def skip(self, skip: bool = True) -> None:
        """From now on show measured values without a guess; ``skip(False)`` ends that."""
        self._skipping = skip
        print(
            "Measured values are shown without a guess." if skip else "A guess comes first again."
        )

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
        print(question)
        made = guess is not None and guess is not ...
        typed = guess
        try:
            guess = read(typed, measured, unit) if made else None
        except ValueError as error:
            made = False
            print(f"  {error}")
        self.shown = made or self._skipping or saved_edition()
        if not self.shown:
            print("  No guess yet. Replace None by yours and run this cell again: a wrong guess")
            print("  costs nothing, and it makes the result stick. (predict.skip() shows all.)")
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
