"""Activations of low rank between pipeline stages."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="Protocol Models: 99 % less between stages, at 80 Mbit/s",
    group="language models",
    says="Activations and gradients between the stages of a pipeline live in a fixed subspace: 99"
    " % less, and no loss of convergence.",
    source="Ramasinghe et al. 2025, arXiv 2506.01260, abstract",
    known="abstract",
    ours="The stage `Subspace` is measured in docs/language_results.md, without the constraint on"
    " the weights that the paper needs.",
    judge=untested(
        "The weights of our model are not constrained to the subspace, so our rows say nothing "
        "about the claim."
    ),
)
