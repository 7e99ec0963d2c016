"""Top-k as a question on Stack Overflow has it."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="Stack Overflow: top-k with a mask read from the values",
    group="systems",
    says="Code in a question: the largest magnitudes are sent, and who sent a value is read off "
    'as "value > 0".',
    source="Stack Overflow, a question on top-k in TensorFlow Federated",
    known="code",
    ours="tests/core/codecs/test_other_systems.py has both mistakes beside our codec.",
    no_command="it is a test of ours, `tests/core/codecs/test_other_systems.py`",
    judge=by_hand(
        Verdict.UNTESTED,
        "The magnitudes travel without their signs, error feedback makes it worse, and where "
        "nobody sent the mean is NaN: three laws of the test fail.",
    ),
)
