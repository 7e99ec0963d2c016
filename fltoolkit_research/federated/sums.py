"""One sum in place of training: what each owner sends, once, and the linear layer found from it.

All owners compute the same fixed features. A linear classifier of features by least squares needs
nothing but sums over samples: how many there are of each class, the sum of their features, and the
sum of products of features. So each owner sends its sums once, and the server solves one linear
system. It does not matter which owner has which sample.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated.means import Collecting
from fltoolkit.history import CHECKED, Totals, checked_at_call
from fltoolkit.party import Party
from fltoolkit.shapes import Shaped
from fltoolkit.trees import Tree, check_finite

__all__ = ["one_sum", "sums_of"]

LEAST_RIDGE = 0.01
"""Of the mean variance of a feature. docs/one_sum.md says what was seen when it was chosen."""
_AT_A_TIME = 1000  # samples whose features are in memory


class SumRecord(Totals):
    """What `one_sum` yields."""

    step: int
    ridge: float
    num_samples: int


@checked_at_call
def one_sum(
    owners: Mapping[str, tuple[Tensor, Tensor]],
    features: nn.Module,
    server: Party,
    channel: Channel,
    *,
    summing: Collecting | None = None,
    send_back: bool = False,
) -> Iterator[SumRecord]:
    """Each owner sends one sum over its samples; the server solves for its linear layer.

    1. every owner sends `sums_of` its samples, divided by the mean number of samples of an owner
    2. the server adds them, and sets its layer to the ridge regression of one-hot classes
    3. with ``send_back``, it sends this layer to every owner

    With Z the features and Y the one-hot classes of n samples, both around their means, the weights
    are (ZᵀZ/n + r I)⁻¹ ZᵀY/n; r is 0.01 of the mean variance, and half of the most negative
    eigenvalue (of a codec's noise) more.

    Sources: Fanì et al. 2024, arXiv 2406.01116 (sums of pretrained features in place of training);
    without learned features this is least squares on random features (Rahimi and Recht 2008).
    What crosses gives a single owner away: `summing` hides all but the sum. See docs/one_sum.md.

    Args:
        owners: names to samples ``(x, y)``, y class numbers [samples], or see `sums_of`.
        features: gives [samples, features]; it is not trained, and everybody has it.
        server: its module is an ``nn.Linear``, or a sequence that begins with one.
        channel: with codecs for the kinds ``update`` (the sums) and ``model`` (the layer).
        summing: how sums are added if no single one may be seen: ``SecureSum(codec)``. None: they
            are sent one by one, and the server adds them.
        send_back: whether the owners get the layer.

    The single record holds ``step`` (1), ``ridge`` (r), ``num_samples`` and the totals
    ``nbytes_up``, ``nbytes_down``, ``nbytes``.

    Raises ValueError for arguments that do not fit, before anything is sent.
    """
    layer = next(server.module.children(), server.module)
    if not isinstance(layer, nn.Linear) or layer.bias is None:
        raise ValueError(
            f"server {server.name!r} begins with {type(layer).__name__}: its first layer is what "
            "the sums give, so it must be an nn.Linear with a bias"
        )
    yield CHECKED

    totals = channel.begin(set(owners), [server.module], sends_weights=send_back)
    num_samples = sum(len(y) for x, y in owners.values())
    terms = {}
    for name, (x, y) in owners.items():
        if channel.is_here(name):
            try:
                sums = sums_of(features, x, y, layer.out_features)
            except (RuntimeError, ValueError) as error:
                raise ValueError(f"owner {name!r}: {error}") from error
            terms[name] = {key: each * (len(owners) / num_samples) for key, each in sums.items()}
    if summing is None:
        arrived = [channel.send(name, server.name, "update", terms[name]) for name in owners]
        total = {key: torch.stack([tree[key] for tree in arrived]).sum(0) for key in arrived[0]}
    else:
        total = summing.collect(channel, server.name, terms, [])
    ridge = _solve(layer, total)
    channel.step += 1
    if send_back:
        weights = {name: p.detach() for name, p in layer.named_parameters()}
        channel.broadcast(server.name, list(owners), "model", weights)
    yield {"step": 1, "ridge": ridge, "num_samples": num_samples, **totals()}


@torch.no_grad()
def sums_of(
    features: nn.Module,
    x: Shaped[Tensor, "samples ..."],
    y: Shaped[Tensor, "samples ..."],
    num_classes: int,
) -> Tree:
    """One owner's sums over its samples, all that it ever sends.

    ``y`` is class numbers, int64 [samples], or how much a sample is of each class, float [samples,
    classes]. With ``torch.stack([1 - y, y], 1)`` the second output is the regression of a number.

    ``counts`` [classes] is the number of samples of each class, ``sums`` [classes, features] the
    sum of their features, and ``products`` [features (features + 1) / 2] the upper triangle of the
    sum of products of two features. All are float32.
    """
    shape = (len(x), num_classes) if y.is_floating_point() else (len(x),)
    if y.shape != shape or not len(y):
        raise ValueError(
            f"x {tuple(x.shape)}, y {tuple(y.shape)} of {y.dtype}: y must be the class numbers of "
            f"the samples, int64 [samples], or float [samples, {num_classes}], of one sample or "
            "more"
        )
    if not y.is_floating_point():
        y = nn.functional.one_hot(y, num_classes)
    sums, products = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for part, shares in zip(x.split(_AT_A_TIME), y.double().split(_AT_A_TIME), strict=True):
        z = features(part).double()
        check_finite("features", z)
        sums = sums + shares.T @ z
        products = products + z.T @ z
    upper = torch.ones_like(products, dtype=torch.bool).triu()
    return {
        "counts": y.double().sum(0).float(),
        "sums": sums.float(),
        "products": products[upper].float(),
    }


@torch.no_grad()
def _solve(layer: nn.Linear, total: Tree) -> float:
    """Set the layer to the ridge regression of what was summed; returns r."""
    counts, sums = total["counts"].double(), total["sums"].double()
    n = counts.sum()
    share, mean = counts / n, sums.sum(0) / n
    upper = torch.ones(len(mean), len(mean), dtype=torch.bool).triu()
    products = torch.zeros(upper.shape, dtype=torch.float64)
    products[upper] = total["products"].double()
    products = products + products.triu(1).T
    covariance = products / n - torch.outer(mean, mean)
    together = (sums / n - torch.outer(share, mean)).T  # [features, classes]
    values, vectors = torch.linalg.eigh(covariance)
    noise = max(0.0, -float(values[0]))  # exact sums have no negative eigenvalue
    ridge = LEAST_RIDGE * float(covariance.diag().mean()) + noise / 2
    inverse = 1 / (values.clamp_min(0) + ridge)
    weight = vectors @ (inverse[:, None] * (vectors.T @ together))
    layer.weight.copy_(weight.T)
    layer.bias.copy_(share - mean @ weight)
    return ridge
