"""The largest cosines of the momentum."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="DeMo: several orders of magnitude less between accelerators",
    group="language models",
    says="Momentum stays with each worker, and only its fast parts, by a cosine transform, are "
    "exchanged.",
    source="Peng et al. 2024, arXiv 2411.19870, abstract",
    known="abstract",
    ours="`fltoolkit.federated.demo` is built, and `experiments.language` names a setting.",
    judge=untested("The setting has not been run long enough for a number."),
)
