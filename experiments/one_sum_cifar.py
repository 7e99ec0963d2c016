"""One sum on photographs (CIFAR-10, JPEG copies), where random filters are poor features.

    python -m experiments.one_sum_cifar           # two seeds of three sizes, some minutes
    python -m experiments.one_sum_cifar --write   # the table, into docs/one_sum.md

The owners, the pictures and the rows to compare with are those of ``experiments.send_data``.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

from torch import nn

from experiments import runs as bench
from experiments.null_rows import megabytes
from experiments.send_data.pictures import pictures, shares
from experiments.send_data.settings import ORIGINAL
from experiments.tables import markdown
from fltoolkit import Channel, Party, evaluate
from fltoolkit.codecs import Only, Pipeline, Quantize
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.federated import one_sum
from fltoolkit_research.models import random_filters

RESULTS = bench.STORED / "one_sum_cifar.jsonl"
PAGE = bench.Page(
    "one_sum", "<!-- begin: printed by experiments.one_sum_cifar -->", "<!-- end: photographs -->"
)
NUM_OWNERS = 5


@dataclass(frozen=True)
class Setting:
    """The number of filters; all else is fixed."""

    num_filters: int
    seeds: tuple[int, ...] = (0, 1)

    @property
    def name(self) -> str:
        """In words."""
        return f"one sum, {9 * self.num_filters:,} features, 8 bits"

    def key(self, task: None, seed: int) -> str:
        """Of a result."""
        return f"{self.num_filters}-{seed}"


def run(task: None, setting: Setting, seed: int) -> bench.Result:
    """One run, as a line of the file."""
    all_pictures, began = pictures(ORIGINAL), perf_counter()

    def scaled(x: Any) -> Any:
        return (x.float() / 255 - 0.473) / 0.251  # mean and deviation over all channels

    x, y = scaled(all_pictures.x_train), all_pictures.y_train
    parts = shares(len(y), NUM_OWNERS, seed)
    owners = {f"owner_{k}": (x[rows], y[rows]) for k, rows in enumerate(parts)}
    model = random_filters((3, 32, 32), setting.num_filters, size=7, seed=seed)
    server = Party("server", model[5:], loss_fn=nn.NLLLoss())
    codec = Only(Pipeline(Quantize(8, stochastic=True), ContextEntropy()), min_size=100)
    (record,) = one_sum(owners, model[:5], server, Channel({"update": codec}))
    x_test, y_test = scaled(all_pictures.x_test), all_pictures.y_test
    right = evaluate([Party("owner", model[:5]), server], x_test, y_test)["accuracy"]
    what: dict[str, Any] = {"name": setting.name, "seed": seed, "accuracy": right}
    what |= {"nbytes": record["nbytes"], "seconds": round(perf_counter() - began, 1)}
    return {"key": setting.key(task, seed), **what}


def table(rows: list[bench.Row]) -> str:
    """A row for each number of features."""
    lines = [
        [s.name, bench.accuracies(runs), megabytes(bench.mean_nbytes(runs), 2)] for s, runs in rows
    ]
    return markdown("row | accuracy [%] | MB sent", lines)


if __name__ == "__main__":
    bench.command(__doc__, RESULTS, PAGE, [Setting(28), Setting(57), Setting(114)], run, table)
