"""Few bits for the change of an activation, where a language model is fine-tuned."""

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, judged, on_seeds, spread, times
from experiments.audit.measures import split_language

DENSE, PLAIN = "float32", "rotated, 2 bits (EDEN)"
CHANGES = "differences, 2 bits (EDEN)"
STORED = split_language("tune", DENSE, PLAIN, CHANGES)


def judge(runs: Runs) -> Finding:
    """As good as float32 after training; what it costs in use is reported beside it."""
    more, used = (runs.nats(CHANGES, DENSE, key) for key in ("nats", "nats_coded"))
    plain, plain_used = (runs.nats(PLAIN, DENSE, key) for key in ("nats", "nats_coded"))
    words = (
        f"Trained with differences and gradients in 2 bits and tested without rounding: "
        f"{spread(more, '+.3f')} nats per character from float32, plain 2 bits "
        f"{spread(plain, '+.3f')}, {on_seeds(runs)}. In use, with the cut in 2 bits as it is sent: "
        f"{spread(used, '+.3f')} and {spread(plain_used, '+.3f')}. A new sample has no earlier "
        "activation whose change could be sent."
    )
    up, total = (times(runs.fewer(CHANGES, DENSE, key)) for key in ("nbytes_up", "nbytes"))
    return Finding(judged(rule.at_most(more, rule.NATS)), words, up, total)


CLAIM = Claim(
    title="The same in fine-tuning a transformer: changes in 2 bits at no loss",
    group="split learning",
    says="Activations in 2 to 4 bits fine-tune a language model as well as in float32 if what is "
    "sent is their change.",
    source="Wang et al. 2022, AQ-SGD, arXiv 2206.01299, abstract",
    known="abstract",
    quote="We evaluated AQ-SGD to fine-tune language models with up to 1.5 billion parameters, "
    "compressing activation to 2-4 bits. AQ-SGD provides up to 4.3x end-to-end speed-up in slower "
    "networks, without sacrificing model quality.",
    quoted_from="abstract, NeurIPS 2022",
    ours="A pretrained transformer of 111,425 parameters in two parts learns capital letters, "
    "eight passes (docs/language_results.md). Both directions in 2 bits behind a rotation.",
    judge=judge,
    version=2,
    **STORED,
)
