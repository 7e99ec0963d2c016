"""Averaging at intervals, with replicas to spare."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="coMind: averaging at intervals, with backup replicas",
    group="systems",
    says="Workers average every so many steps, and the server waits for fewer replicas than there"
    " are, so that a slow one holds nobody up.",
    source="coMind, federated averaging optimizer (an extension of TensorFlow)",
    known="code",
    ours="`fltoolkit.interval_averaging`; tests/federated/test_fedavg.py has it by hand, with a "
    "backup whose block is dropped.",
    judge=by_hand(
        Verdict.REPRODUCED,
        "The rule works as it is said, in the test: two of three replicas are averaged, and the "
        "late one is dropped. Its work is lost for good, which the claim does not say.",
    ),
)
