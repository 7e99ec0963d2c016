"""State C of SecretFlow."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="SecretFlow: nothing is sent in state C",
    group="systems",
    says='"split_state_async" follows Chen et al. 2021: in state C neither activations nor '
    "gradients are exchanged.",
    source="SecretFlow, commit 1b51502b, sl_model.py and split_state_async",
    known="code",
    ours="Read in the source in November 2026, not run. The same rule in our code, "
    "`fltoolkit.split.train_uploading`, is measured in the row on CIFAR-10.",
    judge=by_hand(
        Verdict.REFUTED,
        "Activations are still sent with every batch; only gradients are saved. So it never saves"
        " more than a factor of two, where the paper promises 106.7.",
    ),
)
