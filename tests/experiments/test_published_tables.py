import pytest
import torch
from torch import nn

from experiments.audit.published_tables import published_tables, resnet50, vgg16
from fltoolkit.cost import measure

pytestmark = pytest.mark.later


def num_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_the_networks_have_the_published_sizes():
    with torch.device("meta"):
        vgg, resnet = vgg16(10), resnet50(100)
    assert num_parameters(vgg) == 33_638_218
    # By hand: the ImageNet network has 25,557,032; its 7 x 7 stem and 1000 classes are exchanged.
    expected = 25_557_032 - 3 * 64 * (7 * 7 - 3 * 3) - (2_048 + 1) * (1_000 - 100)
    assert num_parameters(resnet) == expected == 23_705_252
    assert resnet[:-4](torch.empty(1, 3, 32, 32, device="meta")).shape == (1, 2048, 4, 4)


def test_the_published_tables_within_three_percent():
    rows = published_tables()
    assert len(rows) == 10
    assert all(abs(row["difference"]) < 0.03 for row in rows), rows


def test_the_published_ratio_which_no_setting_can_fit():
    with torch.device("meta"):
        vgg = measure(vgg16(10), (3, 32, 32), cut=2)
        later = measure(vgg16(10), (3, 32, 32), cut=4)  # the famous factor is gone
    assert vgg.flops_forward / 2 == pytest.approx(332.1e6, rel=1e-3)
    assert vgg.flops_forward / vgg.flops_forward_client == pytest.approx(29.4 / 0.1548, rel=0.03)
    assert later.flops_forward / later.flops_forward_client < 9
