"""Few bits for the change of an activation, where a language model is fine-tuned."""

from statistics import mean

from experiments.audit.claim import Claim, Finding, Runs, Verdict, on_seeds, spread, times, untested
from experiments.audit.measures import split_language

DENSE, PLAIN = "float32", "rotated, 2 bits (EDEN)"
CHANGES = "differences, 2 bits (EDEN)"
STORED = split_language("tune", DENSE, PLAIN, CHANGES)


def judge(runs: Runs) -> Finding:
    """No loss to speak of (0.02 nats)."""
    more = runs.nats(CHANGES, DENSE)
    words = (
        f"Differences in 2 bits, and gradients in 2 bits, are {spread(more, '+.3f')} nats per "
        f"character from float32, plain 2 bits {spread(runs.nats(PLAIN, DENSE), '+.3f')}, "
        f"{on_seeds(runs)}."
    )
    up, total = (times(runs.fewer(CHANGES, DENSE, key)) for key in ("nbytes_up", "nbytes"))
    verdict = Verdict.REPRODUCED if mean(more) <= 0.02 else Verdict.ELSEWHERE
    return Finding(verdict, words, up, total)


CLAIM = Claim(
    title="The same in fine-tuning a transformer: changes in 2 bits at no loss",
    group="split learning",
    says="Activations in 2 to 4 bits fine-tune a language model as well as in float32 if what is "
    "sent is their change.",
    source="Wang et al. 2022, AQ-SGD, arXiv 2206.01299, abstract",
    known="abstract",
    ours="A pretrained transformer of 111,425 parameters in two parts learns capital letters, "
    "eight passes (docs/language_results.md). Both directions in 2 bits behind a rotation. Tested "
    "without rounding at the cut.",
    judge=judge if STORED["seeds"] else untested("The settings have not been run."),
    **STORED,
)
