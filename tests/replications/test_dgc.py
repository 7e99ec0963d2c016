import pytest
import torch
from trees import flat

from experiments.replications.dgc import DGC


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_dgc_equals_the_paper_s_loop(scope):
    stage = DGC(0.1, momentum=0.8, warmup=(0.5, 0.25), scope=scope)
    u, v = torch.zeros(70), torch.zeros(70)
    ranges = [(0, 70)] if scope == "model" else [(0, 40), (40, 70)]
    for step, fraction in enumerate([0.5, 0.25, 0.1, 0.1, 0.1]):
        g = torch.Generator().manual_seed(step)
        tree = {f"w{k}": torch.randn(*s, generator=g) for k, s in enumerate([(4, 10), (30,)])}
        received = stage.undo(stage.apply(tree))
        sent = torch.zeros(70)
        for i in range(70):
            u[i] = 0.8 * u[i] + flat(tree)[i]
            v[i] = v[i] + u[i]
        for start, stop in ranges:
            by_size = sorted(range(start, stop), key=lambda i: -abs(v[i]))
            for i in by_size[: round(fraction * (stop - start))]:
                sent[i], u[i], v[i] = v[i], 0, 0
        assert torch.allclose(flat(received), sent, atol=1e-6)
        assert torch.allclose(flat(stage.u), u, atol=1e-6)
        assert torch.allclose(flat(stage.v), v, atol=1e-6)
    assert stage.state_dict()["messages"] == 5
    with pytest.raises(ValueError, match=r"'w1' has shape \(31,\), its momentum \(30,\)"):
        stage.apply({"w1": torch.ones(31)})


def test_what_waits_never_grows_infinite():
    tree = {"w": torch.tensor([3e38, -3e38, 1.0])}
    stage = DGC(0.3)
    stage.apply(tree)
    with pytest.raises(ValueError, match=r"'w': what waited grew infinite"):
        stage.apply(tree)
    assert bool(stage.v["w"].isfinite().all())
