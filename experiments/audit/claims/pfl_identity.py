"""Secure aggregation as the identity."""

from functools import partial

from experiments.audit.claim import Claim, Finding, Runs, Values, judged, times
from experiments.secrecy.run import run
from experiments.secrecy.settings import TASKS, Setting, grid


def measure(seed: int, quick: bool, *, secret: bool) -> Values:
    """FedAvg with ten clients and values of 2 bits; the weights as a number that is exact."""
    task = TASKS["digits"]
    found = run(task, Setting("", 10, grid(task, 2), secret=secret, gone=0.0), seed)
    return {
        "accuracy": found["accuracy"],
        "weights": float(int(found["weights"][:12], 16)),
        "nbytes": float(found["nbytes"]),
        "nbytes_up": task.rounds * 10 * sum(found["up"].values()),
    }


def judge(runs: Runs) -> Finding:
    """Equal weights are the identity, which has no noise; bytes are what it leaves out."""
    same = runs.all("secret", "weights") == runs.all("clear", "weights")
    more = times([1 / factor for factor in runs.fewer("secret", "clear", "nbytes_up")])
    words = (
        f"The weights are {'' if same else 'not '}equal to the last bit. What the sentence leaves "
        f"out: {more} times as many bytes go up, each value must be a whole number on a grid that "
        "all clients share, and neither entropy coding nor each client's own top-k saves anything "
        "under a mask (docs/secrecy.md)."
    )
    up, total = (times(runs.fewer("secret", "clear", key)) for key in ("nbytes_up", "nbytes"))
    return Finding(judged(same), words, up, total)


CLAIM = Claim(
    title="pfl-research: the effect of secure aggregation is the identity",
    group="systems",
    source="pfl-research, https://github.com/apple/pfl-research/issues/56, March 2024",
    known="read",
    quote="Secure aggregation techniques generally do not perturb the gradients [...], which means "
    "simulating this effect is simply the identity.",
    quoted_from="a maintainer, apple/pfl-research, issue 56, March 2024",
    ours="Digits, ten clients, 5 rounds, 2,410 parameters in 2 bits: the same whole numbers added "
    "in the clear and under masks, both through the channel.",
    own_task=True,
    judge=judge,
    seeds=range(5),
    measures={"clear": partial(measure, secret=False), "secret": partial(measure, secret=True)},
)
