"""What some claims of the audit build for themselves, small enough to check by hand."""

import runpy

import pytest
import torch
from torch import nn

from experiments.audit.published_tables import published_tables, resnet50, vgg16
from experiments.audit.run import CLAIMS
from fltoolkit.codecs import Pipeline
from fltoolkit.cost import measure
from fltoolkit_research.codecs import ContextEntropy


def claim(name):
    return runpy.run_path(str(CLAIMS / f"{name}.py"))


@pytest.mark.slow
def test_multiples_of_the_largest_value_are_unbiased():
    stage = claim("dadaquant_2021")["FixedPoint"]
    x = torch.tensor([0.3, -1.0, 0.0, 0.55])
    back = [
        codec.decode(codec.encode({"x": x}))["x"]
        for codec in (Pipeline(stage(2, seed), ContextEntropy()) for seed in range(500))
    ]
    assert {float(v) for v in torch.stack(back).flatten()} == {-1.0, 0.0, 0.5, 1.0}
    torch.testing.assert_close(torch.stack(back).mean(0), x, atol=0.06, rtol=0)
    zeros = {"x": torch.zeros(3)}
    codec = Pipeline(stage(2, 0))
    assert torch.equal(codec.decode(codec.encode(zeros))["x"], zeros["x"])


def test_a_channel_rounds_the_update_of_each_client_to_its_own_levels():
    channel = claim("dadaquant_2021")["Leveled"](0)
    channel.levels = {"ann": 1, "ben": 3}
    x = torch.linspace(-1, 1, 500)
    for name, levels in channel.levels.items():
        channel.send("server", name, "model", {"x": x})
        found = channel.send(name, "server", "update", {"x": x})["x"]
        assert len(found.unique()) == 2 * levels + 1
    kinds = [transfer.kind for transfer in channel.transfers]
    assert kinds == ["control", "model", "control", "update"] * 2


def test_levels_by_client_keep_the_variance_for_fewer_levels():
    """Theorem 1: the same sum of (w / levels)^2, and a smaller sum of levels."""
    by_client = claim("dadaquant_2021")["by_client"]
    assert by_client(4, dict.fromkeys("abc", 10)) == {"a": 4, "b": 4, "c": 4}
    sizes = {"a": 10, "b": 80, "c": 10}
    found = by_client(1000, sizes)
    weights = {name: size / 100 for name, size in sizes.items()}
    variance = sum((w / found[n]) ** 2 for n, w in weights.items())
    assert variance == pytest.approx(sum((w / 1000) ** 2 for w in weights.values()), rel=1e-2)
    assert sum(found.values()) < 3000
    assert found["b"] > 1000 > found["a"] == found["c"]


def test_masks_pass_gradients_to_their_probabilities():
    namespace = claim("fedpm_2023")
    model = nn.Linear(4, 3)
    weights = namespace["random_weights"](model, 0)
    length = weights["weight"].abs().unique()
    assert length.numel() == 1
    assert float(length) == pytest.approx(2.71828 / 2, rel=1e-4)
    p = {n: torch.full(w.shape, 0.5, requires_grad=True) for n, w in weights.items()}
    kept = namespace["masked"](p, weights, torch.Generator().manual_seed(0))
    found = {float(v) for v in kept["weight"].detach().unique()}
    assert found <= {-float(length), 0.0, float(length)}
    kept["weight"].sum().backward()
    assert torch.equal(p["weight"].grad, weights["weight"])
    codec = Pipeline(namespace["Whole"](10), ContextEntropy())
    counts = {"w": torch.arange(11.0)}
    assert torch.equal(codec.decode(codec.encode(counts))["w"], counts["w"])


def test_nf4_has_the_published_levels():
    """Some of its 16 levels, as bitsandbytes lists them; the largest value is the scale."""
    block = torch.tensor([2.0, -2.0, 1.0, 0.88, -1.05, 0.0] + 58 * [0.1])
    back = claim("higgs_2024")["nf4"](block)[:6] / 2
    expected = torch.tensor([1.0, -1.0, 0.44070983, 0.44070983, -0.52507305, 0.0])
    torch.testing.assert_close(back, expected, atol=1e-5, rtol=0)


@pytest.mark.later
def test_the_nearest_of_all_points_is_sent_for_each_pair():
    namespace = claim("higgs_2024")
    stage, grid = namespace["Pairs"](2), namespace["normal_grid"](2)
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    scale = x.square().mean().sqrt()
    expected = [grid[(grid - pair).norm(dim=1).argmin()] for pair in (x / scale).view(-1, 2)]
    back = stage.undo(stage.apply({"w": x}))["w"]
    torch.testing.assert_close(back, (torch.stack(expected) * scale).view(3, 8))


def test_a_patch_has_the_changed_values_only():
    namespace = claim("pulse_2026")
    old = {"w": torch.linspace(-1, 1, 1000), "b": torch.zeros(3)}
    changed, short = namespace["patched"](old, {"w": old["w"] * (1 + 1e-6), "b": torch.zeros(3)})
    assert changed < 0.01
    changed, long = namespace["patched"](old, {"w": -old["w"], "b": torch.ones(3)})
    assert changed == 1.0
    assert short < 100 < long


@pytest.mark.later
def test_the_networks_have_the_published_sizes():
    with torch.device("meta"):
        vgg, resnet = vgg16(10), resnet50(100)
    sizes = [sum(p.numel() for p in network.parameters()) for network in (vgg, resnet)]
    assert sizes[0] == 33_638_218
    # By hand: the ImageNet network has 25,557,032; its 7 x 7 stem and 1000 classes are exchanged.
    expected = 25_557_032 - 3 * 64 * (7 * 7 - 3 * 3) - (2_048 + 1) * (1_000 - 100)
    assert sizes[1] == expected == 23_705_252
    assert resnet[:-4](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 2048, 4, 4)


@pytest.mark.later
def test_the_published_tables_within_three_percent():
    rows = published_tables()
    assert len(rows) == 10
    assert all(abs(row["difference"]) < 0.03 for row in rows), rows


@pytest.mark.later
def test_the_published_ratio_which_no_setting_can_fit():
    with torch.device("meta"):
        vgg = measure(vgg16(10), (3, 32, 32), cut=2)
        later = measure(vgg16(10), (3, 32, 32), cut=4)  # the famous factor is gone
    assert vgg.flops_forward / 2 == pytest.approx(332.1e6, rel=1e-3)
    assert vgg.flops_forward / vgg.flops_forward_client == pytest.approx(29.4 / 0.1548, rel=0.03)
    assert later.flops_forward / later.flops_forward_client < 9
