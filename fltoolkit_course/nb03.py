"""The answers of notebook 03. Try to answer before you look."""

import re
from collections.abc import Sequence
from typing import Any

from fltoolkit.split.gates import Decay, LossGate, State, gate_trace
from fltoolkit_course.guesses import AT_LEAST_0, OF_ALL, PERCENT
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "03",
    "Async states",
    guesses={
        "Share of the bytes until within one point of the end?": PERCENT,
        "Bytes of an epoch in state C?": AT_LEAST_0,
        "Stale share in C, straight after A?": PERCENT,
        "Epochs in C, of {}?": OF_ALL,
        "Which gate stands out?": ("LossGate", "FreezeAfter", "Periodic", "none"),
    },
    file="03_",
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict


def states(answer: Any) -> str:
    """The letters of states, which may be written "AAB", "a a b" or ["A", "A", State.B]."""
    try:
        parts = [str(getattr(part, "value", part)) for part in answer]
    except TypeError:
        parts = [str(answer)]
    letters = re.sub(r"[^A-Z]", "", "".join(parts).upper())
    if not letters or set(letters) - set("ABC"):
        raise ValueError("Write one letter for each epoch, A, B or C, as in 'ABCCCCC'.")
    return letters


@notebook.answer("states of the seven epochs")
def seven_epochs(*, losses: Sequence[float], threshold: float) -> Answer:
    traced = "".join(state.value for state in gate_trace(losses, LossGate(threshold)))

    def read(answer: Any) -> str:
        letters = states(answer)
        if len(letters) != len(losses):
            raise ValueError(f"That is {len(letters)} letters, and there are {len(losses)} epochs.")
        return letters

    after = "Those are the decisions. Each counts for the next epoch; the first is in A."
    return Answer(
        traced,
        (lambda a: a[:-1] == traced[1:], after),
        (lambda a: a == traced[:5] + "CC", "Compare with the reference, not the last epoch."),
        read=read,
    )


@notebook.answer("epochs in A")
def decaying_threshold(*, losses: Sequence[float]) -> Answer:
    def epochs_in_a(gate: LossGate) -> int:
        return gate_trace(losses, gate).count(State.A)

    return Answer(
        epochs_in_a(LossGate(0.1, schedule=Decay(0.9))),
        (
            epochs_in_a(LossGate(0.1)),
            "That is the constant threshold: pass schedule=Decay(0.9) too.",
        ),
    )
