"""State C of SecretFlow."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="SecretFlow: nothing is sent in state C",
    group="systems",
    says='"split_state_async" names Chen et al. 2021 as its reference. In that paper neither '
    "activations nor gradients are exchanged in state C; SecretFlow itself prints no number.",
    source="SecretFlow, commit 1b51502b, sl_model.py and split_state_async",
    known="code",
    ours="Read in the source in November 2026, not run. The same rule in our code, "
    "`fltoolkit.split.train_uploading`, is measured in the row on CIFAR-10.",
    no_command="its source was read",
    judge=by_hand(
        Verdict.UNTESTED,
        "Activations are still sent with every batch; only gradients are saved. So it cannot save"
        " more than a factor of two, where its reference reports up to 106.7.",
    ),
)
