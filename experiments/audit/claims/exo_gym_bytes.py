"""The byte counter of EXO Gym."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="EXO Gym: bytes transferred",
    group="systems",
    says="An earlier version of this page ascribed to it a count of bytes for every strategy; the "
    "sentence was not found again in its README.",
    source="EXO Gym, commit 9fa323c",
    known="code",
    ours="Read in the source in November 2026, not run.",
    no_command="its source was read",
    judge=by_hand(
        Verdict.UNTESTED,
        "Nobody was found to claim it, and it was not run: in the source only DeMo adds bytes up, "
        "the base class says 0, and nothing logs it.",
    ),
)
