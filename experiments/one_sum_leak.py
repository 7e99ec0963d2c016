"""Who was in it? Membership read from the sums of products that owners send once, on digits.

    python -m experiments.one_sum_leak           # five seeds, about a minute
    python -m experiments.one_sum_leak --write   # the same into docs/one_sum.md

The attacker has a sum of products of features and an image, and asks whether the image is in the
sum. It knows the features, since they come from a public seed. Its score is the leverage of the
image, z (P + r I)^-1 z: an image in the sum lies in the directions that the sum has; another one
also has parts in other directions. Members are the owner's images (or those of all owners), others
are images by the same people, or by three strangers. 0.5 is a guess, 1 is certainty.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from experiments.pareto.settings import NUM_CLIENTS
from experiments.runs import Page, share_ci
from experiments.tables import markdown
from fltoolkit import Channel, load
from fltoolkit.codecs import Codec, Entropy, Identity, Only, Pipeline, Quantize
from fltoolkit.data import partition_iid
from fltoolkit.trees import Tree
from fltoolkit_research.federated import sums_of
from fltoolkit_research.leakage.attacks import auc
from fltoolkit_research.models import random_filters
from fltoolkit_research.secrecy import Grid, PlainSum, SharedRotation

PAGE = Page("one_sum", "<!-- begin: printed by experiments.one_sum_leak -->", "<!-- end: leak -->")
SEEDS = range(5)
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""Of the mean variance. The attacker takes the one that is best for it: an upper bound."""
SUMMED = 1_200
"""Images of the owners; the other images by the same eleven people are in no sum."""


def messages(seed: int) -> Iterator[tuple[str, Tensor, Tensor, tuple[Tensor, Tensor]]]:
    """What is seen: its name, the products, the features of members and both kinds of others."""
    data, features = load("digits", strangers=seed), random_filters((1, 8, 8), 28, seed=seed)[:5]
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(seed))
    x, y = data.x_train[order[:SUMMED]], data.y_train[order[:SUMMED]]
    others = features(data.x_train[order[SUMMED:]]), features(data.x_test)
    rows = partition_iid(y, NUM_CLIENTS, seed=seed)
    terms = {f"client_{k}": sums_of(features, x[r], y[r], 10) for k, r in enumerate(rows)}
    few = {bits: Pipeline(Quantize(bits, stochastic=True), Entropy()) for bits in (8, 5, 3)}
    forms: dict[str, Codec] = {"float32": Identity()}
    forms |= {f"{bits} bits": Only(codec, min_size=100) for bits, codec in few.items()}
    for form, codec in forms.items():
        channel = Channel({"update": codec})
        sent = {name: channel.send(name, "server", "update", t) for name, t in terms.items()}
        yield (
            f"one owner's message, {form}",
            _square(sent["client_0"]),
            features(x[rows[0]]),
            others,
        )
        total = {
            key: torch.stack([tree[key] for tree in sent.values()]).sum(0)
            for key in sent["client_0"]
        }
        yield f"the sum of ten owners, {form}", _square(total), features(x), others
    scaled = {n: {k: v * (NUM_CLIENTS / len(y)) for k, v in t.items()} for n, t in terms.items()}
    words, grid = "10 bits, as under a secure sum", Pipeline(SharedRotation(), Grid(10, 4.0))
    first, second = PlainSum(grid), PlainSum(grid, seed=1)  # their sums are those of `SecureSum`
    products = _square(first.collect(Channel(), "server", scaled, []))
    yield f"the sum of ten owners, {words}", products, features(x), others
    nine = {name: scaled[name] for name in scaled if name != "client_0"}
    left = _square(second.collect(Channel(), "server", nine, []))
    newcomer = NUM_CLIENTS * products - (NUM_CLIENTS - 1) * left
    member = features(x[rows[0]])
    yield f"the sum of ten owners minus that of nine of them, {words}", newcomer, member, others


def _square(tree: Tree) -> Tensor:
    """The products as a matrix."""
    count = tree["sums"].shape[1]
    matrix = torch.zeros(count, count, dtype=torch.float64)
    matrix[torch.ones(count, count, dtype=torch.bool).triu()] = tree["products"].double()
    return matrix + matrix.triu(1).T


def attacked(products: Tensor, members: Tensor, others: Tensor) -> float:
    """The area under the curve of the attacker's best ridge."""
    values, vectors = torch.linalg.eigh(products)
    z = torch.cat([members, others]).double() @ vectors
    is_member = torch.arange(len(z)) < len(members)
    scale, found = float(products.diag().mean()), []
    for ridge in RIDGES:
        leverage = (z * z / (values.clamp_min(0) + ridge * scale)).sum(1)
        found.append(auc(-leverage, is_member))
    return max(found)


def table() -> str:
    """A row for each view of the attacker."""
    found: dict[str, list[list[float]]] = {}
    for seed in SEEDS:
        for name, products, members, others in messages(seed):
            areas = [attacked(products, members, each) for each in others]
            found.setdefault(name, []).append(areas)
    rows = [
        [name, *(share_ci(column, ".3f", most=1.0) for column in zip(*areas, strict=True))]
        for name, areas in found.items()
    ]
    return markdown(
        "what the attacker has | area, others by the same people | area, others by strangers", rows
    )


if __name__ == "__main__":
    PAGE.command(table, __doc__)
