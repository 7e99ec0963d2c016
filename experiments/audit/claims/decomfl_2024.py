"""Scalars along random directions: what a whole run sends."""

from functools import partial

from experiments.audit import stored
from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread
from experiments.audit.measures import OF_NEWER
from experiments.newer.seeds import FINE_TUNED, ONE, OWNERS
from experiments.newer.setting import SEEDS
from experiments.null_rows import ALONE


def judge(runs: Runs) -> Finding:
    """How many rounds a model of billions of parameters needs cannot be seen here."""
    sent = [nbytes / OWNERS for nbytes in runs.all(ONE, "nbytes")]
    words = (
        f"{max(sent) / 1000:.1f} kB for each client in 40 rounds, which measure 800 slopes, both "
        "ways; messages are as long for any model. How many rounds a model of billions of "
        "parameters needs is not tested. Here the accuracy after these rounds is "
        f"{spread(runs.points(ONE, 'FedAvg'), '+.2f')} points from averaging all weights, and "
        f"{spread(runs.points(ONE, ALONE), '+.2f')} from an owner alone. More slopes than these "
        "were not tried."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="DeComFL: a model is fine-tuned for about 1 MB per client in all",
    group="federated learning",
    says="Clients and the server exchange slopes along directions that seeds make: about a "
    "megabyte in all between the server and a client, for models of billions of parameters.",
    source="Li et al. 2024, arXiv 2405.15861, abstract",
    known="abstract",
    quote="Notably, DeComFL achieves this by transmitting only around 1MB of data in total between "
    "the server and a client to fine-tune a model with billions of parameters.",
    quoted_from="abstract, arXiv 2405.15861, as on openreview.net, omrLHFzC37",
    ours="Four owners fine-tune a network of 2,410 parameters on the digits "
    "(docs/newer_methods.md). No language model is tuned.",
    judge=judge,
    chosen=OF_NEWER,
    measures={n: partial(stored.newer, FINE_TUNED, n) for n in (ONE, "FedAvg", ALONE)},
    seeds=SEEDS,
)
