"""Samples dealt out by the partitioner of flwr-datasets itself."""

from functools import partial

import torch
from torch import Tensor

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from experiments.audit.measures import installed
from fltoolkit import Channel, fedavg, load, splitnn_mlp
from fltoolkit.data import Samples, partition_iid
from fltoolkit.federated import Local

OWNERS, ROUNDS = 10, 25
SORTED, SHUFFLED, RANDOM = "sorted digits", "shuffled before", "drawn at random"


def dealt_out(y: Tensor, shuffled: bool) -> list[Tensor]:
    """The rows of each owner, by IidPartitioner; FederatedDataset shuffles before, with seed 42."""
    from datasets import Dataset as Rows
    from flwr_datasets.partitioner import IidPartitioner

    partitioner = IidPartitioner(num_partitions=OWNERS)
    rows = Rows.from_dict({"row": list(range(len(y))), "label": y.tolist()})
    partitioner.dataset = rows.shuffle(seed=42) if shuffled else rows
    return [torch.tensor(partitioner.load_partition(k)["row"][:]) for k in range(OWNERS)]


def measure(seed: int, quick: bool, *, how: str) -> Values:
    """Classes of an owner, and the accuracy of averaging, on digits sorted by their labels."""
    data = load("digits", strangers=seed).flat()
    order = torch.argsort(data.y_train, stable=True)
    x, y = data.x_train[order], data.y_train[order]
    if how == RANDOM or not installed("flwr_datasets", "flwr-datasets==0.6.1", quick):
        parts = partition_iid(y, OWNERS, seed=seed)
    else:
        parts = dealt_out(y, how == SHUFFLED)
    owners = {f"owner{k}": (x[rows], y[rows]) for k, rows in enumerate(parts)}
    classes = sum(len(torch.unique(labels)) for _, labels in owners.values()) / OWNERS
    in_a_row = sum(bool((rows.diff() == 1).all()) for rows in parts) / OWNERS
    accuracy = averaged(data, owners, seed, 1 if quick else ROUNDS)
    return {"classes": classes, "in_a_row": in_a_row, "accuracy": accuracy}


def averaged(
    data: Samples, owners: dict[str, tuple[Tensor, Tensor]], seed: int, rounds: int
) -> float:
    """The test accuracy of a model that all owners average after each pass over their samples."""
    model = splitnn_mlp(data.x_train.shape[1], seed=seed)
    local = Local(batch_size=10, lr=0.1, epochs=1)
    for _ in fedavg(model, owners, Channel(), rounds=rounds, cohort=OWNERS, local=local, seed=seed):
        pass
    with torch.no_grad():
        right = model(data.x_test).argmax(1) == data.y_test
    return float(right.float().mean())


def judge(runs: Runs) -> Finding:
    """Sampled at random means as many classes as in random parts, and as good a model."""
    blocks, shuffled, random = (sum(runs.all(n, "classes")) / len(runs[n]) for n in runs)
    lost = runs.points(SORTED, RANDOM)
    words = (
        f"Given digits sorted by label, each of the ten parts is a run of neighbouring rows "
        f"({sum(runs.all(SORTED, 'in_a_row')) / len(lost):.0%} of the parts), with {blocks:.1f} of "
        f"the ten classes; parts that are really drawn at random have {random:.1f}. Averaging: "
        f"{spread(lost, '+.1f')} points of accuracy. The usual way does not show it: "
        f"FederatedDataset shuffles first unless it is told not to, and then a part has "
        f"{shuffled:.1f} classes, and averaging {spread(runs.points(SHUFFLED, RANDOM), '+.1f')} "
        "points. Who hands the partitioner a data set directly, which its documentation describes "
        "too, shuffles it first."
    )
    same = rule.every(blocks >= 0.9 * random, rule.at_least(lost, -rule.POINTS))
    return Finding(judged(same), words)


CLAIM = Claim(
    title="flwr-datasets: IidPartitioner samples each partition at random",
    group="systems",
    source="flwr-datasets 0.6.1, flwr_datasets.partitioner.IidPartitioner; flower, issues 7290 and "
    "7327",
    known="read",
    quote="Partitioner creates each partition sampled randomly from the dataset.",
    quoted_from="flower.ai/docs/datasets/ref-api/flwr_datasets.partitioner.IidPartitioner.html, "
    "and the docstring in version 0.6.1",
    ours="flwr-datasets 0.6.1 as it installs, in an environment of its own (pip install "
    "flwr-datasets==0.6.1). Digits sorted by label go in, ten parts come out; then 25 rounds of "
    "averaging of ten owners, one part each.",
    own_task=True,
    judge=judge,
    measures={how: partial(measure, how=how) for how in (SORTED, SHUFFLED, RANDOM)},
    seeds=(0, 1, 2, 3, 4),
    version=2,
)
