"""The reader's guess beside the measured value. It prints, and never raises for a wrong guess."""

from typing import Any

from fltoolkit.course._words import distance, say

__all__ = ["predict"]


def predict(question: str, guess: Any, measured: Any, unit: str = "") -> None:
    """Print the reader's guess beside the measured value, and in words how far off it was.

    With a guess of None (or ``...``) the measured value is not printed: first guess, then look.

    >>> predict("How many bytes go up?", 50_000, 163_854, "B")
    How many bytes go up?
      your guess: 50,000 B
      measured:   163,854 B
      Your guess is 3.3 times too small.
    """
    print(question)
    if guess is None or guess is ...:
        print("  No guess yet. Replace None by yours and run this cell again: a wrong guess")
        print("  costs nothing, and it makes the result stick.")
        return
    print(f"  your guess: {say(guess)} {unit}".rstrip())
    print(f"  measured:   {say(measured)} {unit}".rstrip())
    print(f"  {distance(guess, measured)}")
