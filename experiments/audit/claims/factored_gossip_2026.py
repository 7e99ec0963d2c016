"""Averaging in two parts, of which one is sent while workers compute."""

from experiments.audit.claim import Claim, untested

CLAIM = Claim(
    title="Factored Gossip DiLoCo: waits less than DiLoCo at comparable progress",
    group="language models",
    says="A first mixing that overlaps with computing and a second that blocks replace DiLoCo's "
    "exact mean: processors are used better, and training progresses comparably.",
    source="Hewa Koneputugodage et al. 2026, arXiv 2606.22768, abstract",
    known="abstract",
    quote="On up to billion-parameter language models in low-bandwidth settings, our framework "
    "substantially improves compute utilization compared to DiLoCo, with training progress ranging "
    "from comparable to closely matching it, and is more robust to failures.",
    quoted_from="abstract, arXiv 2606.22768",
    ours="Nothing is run. Random partners alone stand in docs/language_results.md as NoLoCo.",
    no_command="the claim is about waiting, which no byte shows",
    judge=untested(
        "The claim is about how busy processors are on slow links. Bytes are measured here, and "
        "the abstract does not promise fewer of them."
    ),
)
