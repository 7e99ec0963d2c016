"""Distance correlation measures how much two sets of vectors depend on each other.

It sees every kind of dependence, not only the linear one. `batch_distance_correlation` can be
differentiated, `distance_correlation` computes the same number for thousands of rows, and
`corrected_distance_correlation` removes the bias that few samples cause.
"""

import math

import torch
from torch import Tensor

from fltoolkit.shapes import Float

BLOCK = 512  # rows at a time where thousands are compared


def batch_distance_correlation(
    x: Float[Tensor, "samples ..."], y: Float[Tensor, "samples ..."]
) -> Float[Tensor, ""]:
    """Distance correlation of the rows of a batch, from its definition; differentiable.

    1. a_ij = |x_i - x_j| and b_ij = |y_i - y_j| are Euclidean distances, not their squares
       (with squares the number would show linear relations only)
    2. A = a - row means - column means + mean; B is made from b in the same way
    3. dCov^2 = mean of A * B; dCor = sqrt(dCov^2 / sqrt(mean of A^2 * mean of B^2))

    If x or y is constant, the result and its gradient are 0. Memory: samples^2 distances.
    Source: Szekely, Rizzo and Bakirov 2007, definitions 2 to 5.
    """
    x, y = rows_of("x", x), rows_of("y", y)
    check_pair(x, y, 2)
    a, b = _centered(_distances(x, x)), _centered(_distances(y, y))
    var_x, var_y = (a * a).mean(), (b * b).mean()
    if not float(var_x.detach()) * float(var_y.detach()) > 0:
        return (x.sum() + y.sum()) * 0
    both = (var_x * var_y).sqrt()
    if not 0 < float(both.detach()) < math.inf:  # float32 has no such product
        both = var_x.sqrt() * var_y.sqrt()
    squared = (a * b).mean() / both
    return squared.clamp_min(torch.finfo(squared.dtype).tiny).sqrt()


def distance_correlation(x: Float[Tensor, "samples ..."], y: Float[Tensor, "samples ..."]) -> float:
    """Distance correlation of the rows of x and y: a number from 0 to 1.

    It is 1 if y is x rotated, scaled and shifted. In the limit of infinitely many samples it is 0
    if and only if x and y are independent; with few samples of many values it is far above 0 all
    the same, so read it beside `corrected_distance_correlation`. Computed in float64.
    Source: Szekely, Rizzo and Bakirov 2007.

    >>> line = torch.arange(10.0).reshape(10, 1)
    >>> round(distance_correlation(line, 5 - 3 * line), 6)
    1.0
    """
    x, y = rows_of("x", x).double(), rows_of("y", y).double()
    check_pair(x, y, 2)
    cov, var_x, var_y = _sums(x, y, len(x), len(x) ** 2)
    if not var_x * var_y > 0:
        return 0.0
    return float(max(cov, 0.0) / (var_x * var_y) ** 0.5) ** 0.5


def corrected_distance_correlation(
    x: Float[Tensor, "samples ..."], y: Float[Tensor, "samples ..."]
) -> float:
    """The squared distance correlation without the bias that few samples cause.

    If x and y are independent it is near 0, above or below. It needs at least 4 samples, each of
    any number of values. Compare its square root with `distance_correlation`. It is computed in
    float64.
    Source: Szekely and Rizzo 2014, arXiv 1310.2926, equations 3.1 to 3.3.

    Two independent sets of 20 samples with 100 values each look dependent without the correction:

    >>> draws = torch.randn(2, 20, 100, generator=torch.Generator().manual_seed(0))
    >>> round(distance_correlation(*draws), 1), round(corrected_distance_correlation(*draws), 1)
    (1.0, 0.0)
    """
    x, y = rows_of("x", x).double(), rows_of("y", y).double()
    check_pair(x, y, 4)
    n = len(x)
    cov, var_x, var_y = _sums(x, y, n - 2, (n - 1) * (n - 2))
    return cov / (var_x * var_y) ** 0.5 if var_x * var_y > 0 else 0.0


def _sums(x: Tensor, y: Tensor, rows: int, cells: int) -> tuple[float, float, float]:
    """The sums of A * B, A^2 and B^2 over all pairs, computed without holding A or B in memory.

    With A = a - a_i. / rows - a_.j / rows + a.. / cells, each sum needs only the sums of products
    of distances, the row sums a_i. and the total a..: one pass over blocks of rows.
    """
    x, y = x - x.mean(0), y - y.mean(0)  # near 0 the distances lose fewer digits
    products, row_x, row_y = torch.zeros(3, dtype=torch.float64), [], []
    for start in range(0, len(x), BLOCK):
        a = _distances(x[start : start + BLOCK], x, start)
        b = _distances(y[start : start + BLOCK], y, start)
        products += torch.stack([(a * b).sum(), (a * a).sum(), (b * b).sum()]).cpu()
        row_x.append(a.sum(1))
        row_y.append(b.sum(1))
    p, q = torch.cat(row_x).cpu(), torch.cat(row_y).cpu()
    margins = torch.stack([p @ q, p @ p, q @ q])
    totals = torch.stack([p.sum() * q.sum(), p.sum() ** 2, q.sum() ** 2])
    cov, var_x, var_y = (products - 2 / rows * margins + totals / cells).tolist()
    floor = 1e-12  # a variance below this part of the sum of squares is a rounding error
    a2, b2 = products[1:].tolist()
    return cov, var_x if var_x > floor * a2 else 0.0, var_y if var_y > floor * b2 else 0.0


def _distances(x: Tensor, y: Tensor, start: int | None = None) -> Tensor:
    """Euclidean distances of each row of x to each row of y.

    ``start`` says that x is y[start:...]; then the distance of a row to itself is set to exactly 0.
    """
    if start is None:  # this mode is exact, and the gradient of a distance of 0 is 0
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    distances = torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist")
    rows = torch.arange(len(x), device=x.device)
    distances[rows, start + rows] = 0
    return distances


def _centered(d: Tensor) -> Tensor:
    return d - d.mean(0) - d.mean(1, keepdim=True) + d.mean()


def rows_of(name: str, t: Tensor) -> Tensor:
    """``t`` with one row for each sample. Raises ValueError if it holds NaN or is not float."""
    if t.dim() < 1 or not t.is_floating_point():
        raise ValueError(
            f"{name} is {t.dtype} of shape {tuple(t.shape)}: pass floats, one row for each sample"
        )
    if not bool(t.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinite values: has training diverged?")
    return t.flatten(1) if t.dim() > 1 else t[:, None]


def check_pair(x: Tensor, y: Tensor, least: int) -> None:
    """Raises ValueError unless x and y have equally many rows, ``least`` or more."""
    if len(x) != len(y):
        raise ValueError(
            f"{len(x)} rows and {len(y)} rows: row i of both must belong to the same sample"
        )
    if len(x) < least:
        raise ValueError(f"{len(x)} samples are too few: pass {least} or more")
