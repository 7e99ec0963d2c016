"""Averaging at intervals, with replicas to spare."""

from torch import nn

from experiments.audit.claim import Claim, Finding, Runs, Values, Verdict, spread, times
from fltoolkit import Channel, Party, evaluate, load
from fltoolkit.data import partition_iid
from fltoolkit.federated import Arrivals, Local, LogNormal, Server, interval_averaging
from fltoolkit.models import splitnn_mlp

REPLICAS, STEPS, AVERAGES = 6, 20, 30
ALL, SPARE = "all six", "four of six"


def measure_of(wait_for: int):
    """Seconds of the virtual clock for so many averages, and the accuracy then."""

    def measure(seed: int, quick: bool) -> Values:
        data, model = load("digits").flat(), splitnn_mlp(64, seed=seed)
        rows = partition_iid(data.y_train, REPLICAS, seed=seed)
        replicas = {f"replica_{k}": (data.x_train[r], data.y_train[r]) for k, r in enumerate(rows)}
        records = interval_averaging(
            model,
            replicas,
            Channel(),
            num_averages=2 if quick else AVERAGES,
            local=Local(batch_size=10, lr=0.1, steps=STEPS),
            server=Server(
                arrivals=Arrivals(wait_for=wait_for, clock=LogNormal(sigma=1.0, seed=seed))
            ),
            seed=seed,
        )
        *_, record = records
        server = Party("server", model, loss_fn=nn.NLLLoss())
        accuracy = float(evaluate([server], data.x_test, data.y_test)["accuracy"])
        return {
            **{"seconds": float(record["seconds"]), "accuracy": accuracy},
            "nbytes": float(record["nbytes"]),
        }

    return measure


def judge(runs: Runs) -> Finding:
    """What backups change; the docstring promises neither time nor accuracy of them."""
    faster, lost = runs.fewer(SPARE, ALL, "seconds"), runs.points(SPARE, ALL)
    words = (
        f"{AVERAGES} averages take {times(faster)} times less time if four of six replicas "
        f"are waited for, at {spread(lost, '+.2f')} points. What comes late is dropped, as the "
        "docstring says; how much time backups save it does not say."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="coMind: averaging at intervals, with backup replicas",
    group="systems",
    says="Workers average every so many steps, and the server can wait for fewer replicas than "
    "there are: the others are backups.",
    source="coMindOrg/federated-averaging-tutorials, federated_averaging_optimizer.py",
    known="read",
    quote="The accumulator will drop all stale variables (more details in the accumulator op).",
    quoted_from="docstring of FederatedAveragingOptimizer, coMindOrg/federated-averaging-tutorials",
    ours="`fltoolkit.federated.interval_averaging` on digits, blocks of 20 steps; times of "
    "replicas are log-normal (sigma 1) on a virtual clock. tests/core/federated/test_rounds.py has "
    "the rule by hand.",
    judge=judge,
    measures={ALL: measure_of(REPLICAS), SPARE: measure_of(4)},
)
