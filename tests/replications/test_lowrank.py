import itertools

import numpy as np
import pytest
import torch
from every_codec import LOW_RANK, for_conformance
from trees import there_and_back

from experiments.replications.lowrank import CHUNK, PowerSGD, Subspace, power_step
from fltoolkit.codecs import Half, Pipeline, Quantize
from fltoolkit.codecs.stage import side
from fltoolkit.testing import Conformance, normal
from fltoolkit.wire import WireError, write_layout
from fltoolkit_research.codecs import EDEN, ContextEntropy

pytestmark = pytest.mark.later


@pytest.mark.parametrize("codec", for_conformance(LOW_RANK))
class TestPowerSGD(Conformance):
    pass


def relative_error(received, tensor):
    """|C(x)-x| / |x|."""
    return float((received.double() - tensor.double()).norm() / tensor.double().norm())


def of_rank(rank, m=30, n=50, seed=0):
    return normal(m, rank, seed=seed) @ normal(rank, n, seed=seed + 1)


@pytest.mark.parametrize(("m", "n"), [(7, 9), (1, 3), (3, CHUNK + 1), (300, 700), (CHUNK, 4)])
def test_fast_is_plain(m, n):
    """P = M Q, orthonormalized by Gram and Schmidt as in the paper; Q = M^T P."""
    rank = min(2, m)
    matrix, start = normal(m, n), normal(rank, n, seed=1).double()
    p, q = power_step(matrix, start, np.random.default_rng(0))
    columns = list((matrix.double() @ start.t()).t())
    for i, column in enumerate(columns):
        for before in columns[:i]:
            column -= before.dot(column) * before
        column /= column.norm()
    plain = torch.stack(columns, dim=1)
    product = plain @ (matrix.double().t() @ plain).t()
    torch.testing.assert_close(p.t() @ q, product, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(p @ p.t(), torch.eye(rank).double(), rtol=1e-9, atol=1e-9)


def test_what_is_sent():
    stage, w = PowerSGD(2), normal(20, 6, 5)
    tree = {"w": w, "b": normal(20), "small": normal(4, 4), "n": torch.arange(6).reshape(2, 3)}
    parts = stage.apply(tree)
    assert list(parts) == ["w", "b", "small", "n", side("w", "~")]
    assert parts["w"].shape == (2, 20 + 30)
    assert bytes(parts[side("w", "~")].tolist()) == b"\x00\x30\x14\x06\x05"
    assert all(parts[name] is tree[name] for name in ("b", "small", "n"))
    p, q = parts["w"][:, :20], parts["w"][:, 20:]
    torch.testing.assert_close(p.square().mean(1), q.square().mean(1))  # one range fits both
    assert abs(float(p[0] @ p[1])) < 1e-6
    out = PowerSGD(2).undo(parts)
    torch.testing.assert_close(out["w"], (p.t() @ q).reshape(w.shape))
    assert all(out[name] is tree[name] for name in ("b", "small", "n"))
    projected = p.t() @ torch.linalg.lstsq(p.t(), w.reshape(20, 30)).solution
    torch.testing.assert_close(out["w"].reshape(20, 30), projected, rtol=1e-4, atol=1e-5)


def test_a_shape_that_would_not_be_coded_is_refused():
    layout = torch.frombuffer(
        bytearray(write_layout((("", torch.float32, (50,)),))), dtype=torch.uint8
    )
    parts = PowerSGD(2).apply({"w": normal(20, 30)}) | {side("w", "~"): layout}
    with pytest.raises(WireError, match="would not have coded the shape"):
        PowerSGD(2).undo(parts)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_warm_start_leads_to_the_best_approximation(rank):
    u, _, v = torch.linalg.svd(normal(40, 60), full_matrices=False)
    x, stage = u @ torch.diag(0.7 ** torch.arange(40)) @ v, PowerSGD(rank)
    errors = [relative_error(there_and_back(stage, x), x) for _ in range(40)]
    s = torch.linalg.svdvals(x.double()).square()
    best = float((s[rank:].sum() / s.sum()).sqrt())  # of any there is (Eckart and Young)
    assert errors[0] > 1.02 * best
    assert all(after <= before + 1e-6 for before, after in itertools.pairwise(errors))
    assert errors[-1] == pytest.approx(best, rel=1e-4)
    cold = [relative_error(there_and_back(PowerSGD(rank, seed), x), x) for seed in range(9)]
    assert min(cold) > 1.01 * best  # without it, there is no better message than the first


def block(rows, columns, rank=2):
    x = torch.zeros(30, 50)
    x[rows, columns] = of_rank(rank, 10, 20)
    return x


SPENT = {
    "zeros": torch.zeros(30, 50),
    "rank 1": of_rank(1),
    "constant": torch.full((30, 50), 0.1),
    "one value": torch.eye(30, 50)[:1] * torch.eye(30)[:, :1],
    "other columns": block(slice(0, 10), slice(0, 20)),
    "other rows": block(slice(10, 20), slice(30, 50)),
    "other rows and columns": block(slice(0, 10), slice(30, 50)),
}


@pytest.mark.parametrize("name", SPENT)
@pytest.mark.parametrize("num_messages", [1, 5])
def test_after_anything_the_next_gradient_still_works(name, num_messages):
    """Whatever the warm start has become, rank 2 of rank 2 is exact."""
    stage, x = PowerSGD(2), block(slice(10, 20), slice(20, 40))
    for _ in range(num_messages):
        before = there_and_back(stage, SPENT[name])
        torch.testing.assert_close(before, SPENT[name], rtol=1e-5, atol=1e-5)
    assert relative_error(there_and_back(stage, x), x) < 1e-4


@pytest.mark.parametrize(
    "codec",
    [
        Pipeline(Subspace(4)),
        Pipeline(Subspace(3, seed=5), Half()),
        Pipeline(Subspace(4), Quantize(8, per="channel")),
        Pipeline(Subspace(4), EDEN(2), ContextEntropy()),
    ],
    ids=repr,
)
class TestSubspace(Conformance):
    @pytest.mark.later
    def test_hostile_content_ends_in_a_wire_error_or_a_tree(self, codec):
        super().test_hostile_content_ends_in_a_wire_error_or_a_tree(codec)


def test_a_subspace_is_a_projection_on_orthonormal_directions():
    """U from what the stage does to the unit vectors; then the plain formula h U U^T."""
    stage, width = Subspace(6), 20
    u = stage.apply({"w": torch.eye(width)})["w"].double()  # [width, rank]
    assert torch.allclose(u.t() @ u, torch.eye(6).double(), atol=1e-6)
    h = normal(5, 7, width)
    assert torch.allclose(there_and_back(stage, h).double(), h.double() @ u @ u.t(), atol=1e-5)
    inside = (normal(5, 7, 6).double() @ u.t()).float()
    assert torch.allclose(there_and_back(stage, inside), inside, atol=1e-5)
    assert relative_error(there_and_back(stage, h), h) > 0.5
