"""Low rank: send two narrow matrices instead of a large one.

Here: `PowerSGD`, which finds the matrices anew in each message, and `Subspace`, whose directions
are fixed. Not here: fewer bits per value, fewer values (`fltoolkit.codecs`). Both kinds of stage
may follow these and work on the narrow matrices.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fltoolkit.codecs import stage
from fltoolkit.codecs.quantize import CHUNK, FLOAT32_MAX
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, check_num_values, read_layout, write_layout

SHAPE = "~"  # the name of the side information: the shape, written as in a frame's header (wire.py)
WIDTH = "w"  # the name of the side information: how long a row was
MAX_WIDTH = 1 << 16  # of the widest row whose coordinates in a subspace are sent
MAX_SIZE = 1 << 31  # values of the largest tensor that is sent as a product
NOTHING = 1e-12  # a direction with a smaller share of the whole is rounding error
TINIEST = 1e-300  # used where dividing by zero must give zero


@dataclass
class PowerSGD(stage.RandomStage):
    """The best low-rank approximation that one power iteration finds: M becomes P Q^T.

    Each tensor of two and more dimensions is seen as a matrix M [m, n]: m is the product of its
    first dimensions, and n the product of the others, parted such that m + n is smallest: a
    convolution [64, 32, 5, 5] becomes 64 x 800. For each message and matrix:

    1. P = M Q [m, rank], with the Q of this link's last message (the warm start);
    2. orthonormalize the columns of P;
    3. Q = M^T P [n, rank]; P and Q are sent, rank * (m + n) values instead of m * n.

    Each message is nearer to the best approximation of this rank. A column of Q that says nothing
    about M, as in the first message, is replaced by random numbers; a matrix of zeros does not
    change the warm start. Vectors, matrices that would not become smaller, and tensors of more than
    2^31 values are passed on unchanged.

    P and Q are one entry [rank, m + n], scaled such that their values are about equally large, so
    that a later stage (`Quantize`, `Half`, `TopK`) treats both alike. The result is biased: use
    `ErrorFeedback`. The paper's workers average P and Q on the way; here each directed link has its
    own.

    Source: Vogels, Karimireddy and Jaggi 2019, arXiv 1905.13727, algorithm 1.

    >>> parts = PowerSGD(1).apply({"w": torch.ones(30, 50)})
    >>> parts["w"].shape, PowerSGD(1).undo(parts)["w"].mean()
    (torch.Size([1, 80]), tensor(1.))
    """

    rank: int  # larger = less compression
    seed: int = 0
    warm: Tree = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        stage.check_number("rank", self.rank, 1)

    def apply(self, parts: stage.Parts) -> stage.Parts:
        """Return P and Q in one entry, and the shape; remember Q for the next warm start."""
        out, warm = dict(parts), {}
        random = np.random.Generator(np.random.SFC64(self.draw_key()))
        for name, tensor in stage.floats(parts).items():
            if _pays(tensor.shape, self.rank):
                matrix = tensor.detach().reshape(_sides(tensor.shape))
                p, q = power_step(matrix, self._start(name, matrix.shape[1]), random)
                if q.any():
                    warm[name] = (q / q.norm(dim=1, keepdim=True).clamp_min(TINIEST)).float()
                out[name] = _join(p, q)
                layout = write_layout((("", torch.float32, tuple(tensor.shape)),))
                out[stage.side(name, SHAPE)] = torch.frombuffer(
                    bytearray(layout), dtype=torch.uint8
                )
        self.warm = {**self.warm, **warm}
        return out

    def undo(self, parts: stage.Parts) -> stage.Parts:
        """The product of P and Q."""
        out, total = dict(parts), 0
        for name in stage.with_side(parts, SHAPE):
            part = stage.expect_values(parts, name)
            rank = self._sent_rank(part)
            shape = self._shape(name, stage.take_side(out, name, SHAPE, torch.uint8, None), rank)
            m, n = _sides(shape)
            check_num_values(total := total + m * n)
            if part.shape != (rank, m + n):
                raise WireError(
                    f"entry {name!r}: expected P and Q of rank {rank} for {shape} in a shape "
                    f"of {(rank, m + n)}, found {tuple(part.shape)}"
                )
            out[name] = _product(part[:, :m], part[:, m:]).reshape(shape)
        return out

    def start_link(self, salt: int) -> None:
        super().start_link(salt)
        self.warm = {}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "warm": dict(self.warm)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.warm = dict(state["warm"])

    def _sent_rank(self, part: Tensor) -> int:
        """The rank that an entry of a message must have."""
        return self.rank

    def _start(self, name: str, n: int) -> Tensor:
        """The warm start, or zeros, which `power_step` replaces."""
        return self.warm.get(name, torch.zeros(self.rank, n)).double()

    def _shape(self, name: str, layout: Tensor, rank: int) -> tuple[int, ...]:
        """The shape of the tensor behind an entry, if this stage would have coded it."""
        entries, _ = read_layout(layout.numpy().tobytes())
        if len(entries) != 1 or entries[0][:2] != ("", torch.float32):
            raise WireError(f"entry {name!r}: expected one shape, found {entries}")
        shape = entries[0][2]
        if not _pays(shape, rank):
            raise WireError(f"entry {name!r}: {self!r} would not have coded the shape {shape}")
        return shape


@dataclass
class Subspace(stage.Stage):
    """Send the coordinates of each row in a fixed subspace: ``rank`` values in place of ``width``.

    The last dimension of a tensor [..., width] is projected on ``rank`` orthonormal directions U,
    which both ends draw from ``seed``: h becomes h U, and the receiver computes with h U U^T.
    Nothing is sent about U. Tensors of one dimension, rows that would not become shorter, and rows
    of more than 65,536 values are passed on unchanged.

    On the activations and gradients of a cut it is a fixed linear layer of this rank: the parts
    learn to write into the subspace. So use it in the evaluation too (``through=codec``).

    Source: Ramasinghe et al. 2025 (Protocol Models), arXiv 2506.01260. There the weights are
    constrained to a subspace, and the embeddings, which do not fit into it, are rebuilt from the
    token ids at each receiver. Here nobody gets the ids, and only what is sent is constrained.

    >>> h = torch.ones(10, 64)
    >>> Subspace(16).apply({"h": h})["h"].shape
    torch.Size([10, 16])
    """

    rank: int  # larger = less compression
    seed: int = 0

    def __post_init__(self) -> None:
        stage.check_number("rank", self.rank, 1)
        stage.check_number("seed", self.seed, 0)

    def apply(self, parts: stage.Parts) -> stage.Parts:
        """Return the coordinates, and the width."""
        out = dict(parts)
        for name, tensor in stage.floats(parts).items():
            if tensor.dim() > 1 and self.rank < (width := tensor.shape[-1]) <= MAX_WIDTH:
                basis = _directions(width, self.rank, self.seed)
                rows = (tensor.detach().double() @ basis.t()).clamp_(-FLOAT32_MAX, FLOAT32_MAX)
                out[name] = rows.float()
                out[stage.side(name, WIDTH)] = torch.tensor(width, dtype=torch.int32)
        return out

    def undo(self, parts: stage.Parts) -> stage.Parts:
        """The rows that have these coordinates."""
        out, total = dict(parts), 0
        for name in stage.with_side(parts, WIDTH):
            width = int(stage.take_side(out, name, WIDTH, torch.int32))
            part = stage.expect_values(parts, name)
            fits = part.dim() > 1 and part.shape[-1] == self.rank < width <= MAX_WIDTH
            if not fits:
                raise WireError(
                    f"entry {name!r}: expected rows of {self.rank} coordinates for a larger width, "
                    f"found a shape of {tuple(part.shape)} and a width of {width}"
                )
            rows = part.reshape(-1, self.rank)
            check_num_values(total := total + len(rows) * width)
            basis = _directions(width, self.rank, self.seed).float()
            out[name] = _product(rows.t(), basis).reshape(*part.shape[:-1], width)
        return out


@lru_cache(maxsize=16)
def _directions(width: int, rank: int, seed: int) -> Tensor:
    """Orthonormal rows [rank, width], as float64 that is rounded to 2^-24.

    So two machines that orthonormalize with other last bits hold the same numbers.
    """
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, width, rank])))
    drawn = torch.from_numpy(random.standard_normal((width, rank)))
    basis, r = torch.linalg.qr(drawn)
    return (basis * r.diagonal().sign()).t().mul(2.0**24).round().div(2.0**24).contiguous()


def power_step(matrix: Tensor, start: Tensor, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """One power iteration: P, orthonormal, and Q = M^T P, in float64 and as rows.

    A row of ``start`` [rank, n] is replaced with a random row if it shows nothing of ``matrix``
    [m, n] that the other rows do not show. (Householder's orthonormalization also works for zeros.)

    Returns P^T [rank, m] and Q^T [rank, n]: matrix kernels are faster along long rows.
    """
    nothing = NOTHING * math.sqrt(sum(float(x.flatten() @ x.flatten()) for _, x in _rows(matrix)))
    p, weak = _orthonormal(_image(matrix, start), nothing)
    if nothing > 0 and weak.any():
        afresh = torch.from_numpy(random.standard_normal(start.shape) / math.sqrt(start.shape[1]))
        p, _ = _orthonormal(_image(matrix, afresh.where(weak[:, None], start)), nothing)
    q = torch.zeros_like(start)
    for rows, x in _rows(matrix):
        q += p[:, rows] @ x
    q[q.norm(dim=1) <= nothing] = 0
    return p, q


def _rows(matrix: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield a few rows at a time, as float64: squares do not overflow, and a chunk fits caches."""
    step = max(CHUNK // matrix.shape[1], 1)
    for first in range(0, len(matrix), step):
        rows = slice(first, first + step)
        yield rows, matrix[rows].double()


def _image(matrix: Tensor, start: Tensor) -> Tensor:
    """(M Q)^T [rank, m]."""
    return torch.cat([start @ x.t() for _, x in _rows(matrix)], dim=1)


def _orthonormal(rows: Tensor, nothing: float) -> tuple[Tensor, Tensor]:
    """Orthonormal rows that span the same space, and which rows depend on the rows before them."""
    basis, r = torch.linalg.qr(rows.t())
    return basis.t().contiguous(), r.diagonal().abs() <= nothing


def _pays(shape: tuple[int, ...], rank: int) -> bool:
    """Whether P and Q are smaller than the tensor."""
    size, (m, n) = math.prod(shape), _sides(shape)
    return len(shape) > 1 and 0 < rank * (m + n) < size < MAX_SIZE


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of the tensor as a matrix of the smallest sum; on a tie, fewer rows."""
    splits = [(math.prod(shape[:k]), math.prod(shape[k:])) for k in range(1, len(shape))]
    return min(splits, key=sum, default=(math.prod(shape), 1))


def _join(p: Tensor, q: Tensor) -> Tensor:
    """Join P and Q as float32 [rank, m + n]; scaling each pair of rows keeps their product.

    Both rows of a pair get equal mean squares. Then one range fits both, rounding both with one
    step makes the smallest error, and no number overflows or underflows unless M does.
    """
    share = q.norm(dim=1, keepdim=True).sqrt() * (p.shape[1] / q.shape[1]) ** 0.25
    return torch.cat([p * share, q / share.clamp_min(TINIEST)], dim=1).float()


def _product(p: Tensor, q: Tensor) -> Tensor:
    """P Q^T as float32 [m, n], for rows [rank, m] and [rank, n]; saturates.

    The result has the same bits on every machine, as `Difference` needs it: the product of two
    float32 numbers is exact in float64, and sums are computed over the rank from first to last.
    """
    out = torch.empty(p.shape[1], q.shape[1])
    left, right = p.double()[:, :, None], q.double()[:, None, :]
    step = max(CHUNK // q.shape[1], 1)
    for first in range(0, len(out), step):
        rows = slice(first, first + step)
        total = torch.zeros(out[rows].shape, dtype=torch.float64)
        for column, row in zip(left, right, strict=True):
            total.addcmul_(column[rows], row)
        out[rows] = total.clamp_(-FLOAT32_MAX, FLOAT32_MAX)
    return out
