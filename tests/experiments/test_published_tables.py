import pytest
import torch
from torch import nn

from experiments.audit.published_tables import published_tables, resnet50, vgg16
from fltoolkit.cost import ModelCost, measure


def num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def on_meta(make, *args):
    with torch.device("meta"):
        return make(*args, seed=0)


@pytest.fixture(scope="module")
def vgg() -> ModelCost:
    with torch.device("meta"):
        return measure(vgg16(10, seed=0), (3, 32, 32), cut=2)


def test_vgg16_has_13_convolutions_and_the_wide_head():
    model = on_meta(vgg16, 10)
    convs = [m for m in model if isinstance(m, nn.Conv2d)]
    linears = [(m.in_features, m.out_features) for m in model if isinstance(m, nn.Linear)]
    assert len(convs) == 13
    assert linears == [(512, 4096), (4096, 4096), (4096, 10)]
    assert not any(isinstance(m, nn.BatchNorm2d | nn.Dropout) for m in model.modules())
    assert num_parameters(model) == 33_638_218
    assert model[:2](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 64, 32, 32)


@pytest.mark.later
def test_resnet50_has_50_layers_and_the_small_stem():
    model = on_meta(resnet50, 100)
    weighted = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    projections = [m for m in model if getattr(m, "shortcut", None)]  # not counted in the "50"
    assert len(weighted) - len(projections) == 50
    # By hand: the ImageNet network has 25,557,032; its 7 x 7 stem and 1000 classes are exchanged.
    expected = 25_557_032 - 3 * 64 * (7 * 7 - 3 * 3) - (2_048 + 1) * (1_000 - 100)
    assert num_parameters(model) == expected == 23_705_252
    assert model[:1](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 64, 32, 32)
    assert model[:-4](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 2048, 4, 4)


def test_the_published_tables_within_three_percent():
    rows = published_tables()
    assert len(rows) == 10
    for row in rows:
        assert abs(row["difference"]) < 0.03, row
        assert row["difference"] == pytest.approx(row["ours"] / row["printed"] - 1)
        assert "epochs" in row["settings"]


def test_the_published_ratio_which_no_setting_can_fit(vgg):
    printed = 29.4 / 0.1548
    assert printed == pytest.approx(189.9, abs=0.05)
    assert vgg.flops_forward / vgg.flops_forward_client == pytest.approx(printed, rel=0.03)
    with torch.device("meta"):  # cut one layer later, the famous factor is gone
        later = measure(vgg16(10, seed=0), (3, 32, 32), cut=4)
    assert later.flops_forward / later.flops_forward_client < 9


def test_vgg16_multiply_accumulates_and_the_share_of_its_first_layer(vgg):
    assert vgg.flops_forward / 2 == pytest.approx(332.1e6, rel=1e-3)
    assert vgg.flops_forward_client == 2 * 32 * 32 * 64 * 3 * 3 * 3
    assert vgg.flops_forward / vgg.flops_forward_client == pytest.approx(187.7, abs=0.05)
    assert vgg.cut_width == 65_536
