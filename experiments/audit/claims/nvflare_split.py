"""Who gets the trained halves of a split network."""

from experiments.audit.claim import Claim, Verdict, by_hand

CLAIM = Claim(
    title="NVFlare's split example: labels and the classifier stay with their owner",
    group="systems",
    says="Only activations and their gradients cross; labels and the classifier's parameters stay "
    "at the label site.",
    source="NVFlare, cifar10-splitnn/model.py at commit 56f4951; pull request 5050, August 2026",
    known="read",
    quote="Backpropagation produces cut-layer gradients that are returned to the image site; "
    "labels and classifier parameters remain local.",
    quoted_from="docstring of TopModel, NVFlare, cifar10-splitnn/model.py",
    ours="Read in client.py at commit 50ee1cc, not run.",
    no_command="its source was read",
    judge=by_hand(
        Verdict.UNTESTED,
        "NVFlare was read, not run. In its source each site saves its own half and returns only "
        "a path. A first version of the pull request sent the trained top model to the owner of "
        "the images; a reviewer saw that the docstring says otherwise, before it was merged. "
        "Activations and gradients travel in 16 bits, uncompressed.",
    ),
)
