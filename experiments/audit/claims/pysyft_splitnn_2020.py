"""The network of PySyft's tutorial, and the bytes that it does not count."""

from experiments.audit.claim import Claim, Finding, Runs, Verdict, spread
from fltoolkit_research import Experiment

RAW = 60_000 * 784  # bytes of all training images, one byte per pixel
ONE_PASS = Experiment("split", data="mnist", rounds=1, batch_size=64, lr=0.03)


def judge(runs: Runs) -> Finding:
    """No sentence is tested: what one pass sends is shown."""
    multiples = [nbytes / RAW for nbytes in runs.all("one pass", "nbytes")]
    words = (
        f"One pass over MNIST sends {spread(multiples, '.1f')} times the bytes of all its images. "
        "The tables that the tutorial shows are about hundreds of clients and a large network; its "
        "own network, with one client, counts nothing."
    )
    return Finding(Verdict.UNTESTED, words)


CLAIM = Claim(
    title="PySyft's SplitNN tutorial: what one pass of its network sends",
    group="split learning",
    says="The tutorial trains 784-128-640 | 640-10 on MNIST with one client, and shows the tables "
    "of Vepakomma et al. 2018 on computing and bandwidth. It prints no number for its own network.",
    source="PySyft 0.2, tutorial on SplitNN",
    known="read",
    ours="The same network and batches on MNIST, one pass, float32 both ways.",
    judge=judge,
    measures={"one pass": ONE_PASS},
)
