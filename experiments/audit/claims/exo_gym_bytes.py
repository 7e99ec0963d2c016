"""The byte counter of EXO Gym."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="EXO Gym: bytes transferred, for every strategy",
    group="systems",
    says="The simulator reports bytes transferred.",
    source="EXO Gym, commit 9fa323c",
    known="code",
    ours="Read in the source in November 2026, not run.",
    judge=by_hand(
        Verdict.REFUTED,
        "Only DeMo adds them up; the base class says 0, and nothing logs it.",
    ),
)
