"""The two tables of Vepakomma et al. 2018 beside our formulas, and the networks in them."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from fltoolkit.cost import federated_nbytes, measure, split_nbytes
from fltoolkit.history import Record
from fltoolkit.shapes import Float

VGG16_WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride
METHODS = "large-batch SGD", "federated averaging", "split learning"


def published_tables() -> list[Record]:
    """Tables 1 and 2 of Vepakomma et al. 2018 (arXiv 1812.00564) and our formulas, row by row.

    This is a consistency check and not an independent reproduction: the paper prints neither epochs
    nor rounds, batch size or cut. We chose these settings such that the numbers fit (``settings``
    in each row), and took "VGG" for VGG-16 with a head of width 4096. Only the ratio of federated
    to split compute (189.9 in the paper, 187.7 here) and how costs depend on the number of clients
    are not fitted. The 13 and 14 GB of large-batch SGD are left out: the paper's bytes per client
    grow with the number of clients, ours do not. ``difference`` is ours / printed - 1.

    >>> for row in published_tables()[:3]:
    ...     print(row["method"], row["num_clients"], row["printed"], f"{row['difference']:.1%}")
    large-batch SGD 100 29.4 -1.7%
    federated averaging 100 29.4 -1.7%
    split learning 100 0.1548 -0.6%
    """
    with torch.device("meta"):
        vgg = measure(vgg16(10), (3, 32, 32), cut=2)
        resnet = measure(resnet50(100), (3, 32, 32), cut=1)
    rows: list[Record] = []

    def add(table: str, method: str, clients: int, printed: float, ours: float, how: str) -> None:
        row: Record = {"table": table, "method": method, "num_clients": clients}
        row |= {"printed": printed, "ours": ours, "difference": ours / printed - 1}
        rows.append({**row, "settings": f"{how}, cut after conv1"})

    for clients, *printed in (100, 29.4, 29.4, 0.1548), (500, 5.89, 5.89, 0.03):
        passes = 3 * 29 * 50_000 / clients  # a step of training is three forward passes
        flops = vgg.flops_forward, vgg.flops_forward, vgg.flops_forward_client
        for method, value, each in zip(METHODS, printed, flops, strict=True):
            ours = passes * each / 1e12
            add("1: CIFAR-10, VGG, TFLOP per client", method, clients, value, ours, "29 epochs")
    for clients, rounds, *printed in (100, 16, 3.0, 6.0), (500, 13, 2.4, 1.2):
        nbytes = (
            federated_nbytes(resnet, num_clients=clients, rounds=rounds),
            split_nbytes(resnet, num_samples=50_000, num_clients=clients, epochs=23),
        )
        for method, value, total in zip(METHODS[1:], printed, nbytes, strict=True):
            ours, how = total / clients / 1e9, f"23 epochs, {rounds} rounds"
            add("2: CIFAR-100, ResNet-50, GB per client", method, clients, value, ours, how)
    return rows


def vgg16(num_classes: int) -> nn.Sequential:
    """VGG-16 for images of 3 x 32 x 32: 13 convolutions, then 512-4096-4096-``num_classes``.

    It is configuration D of Simonyan & Zisserman 2014 (arXiv 1409.1556), without dropout; it takes
    332.1 million multiply-accumulates for each image. Convolution and ReLU are separate items: a
    cut at 2 is after the first layer, with 64 x 32 x 32 activations.
    """
    layers: list[nn.Module] = []
    width_in = 3
    for widths in VGG16_WIDTHS:
        for width in widths:
            layers += [nn.Conv2d(width_in, width, 3, padding=1), nn.ReLU()]
            width_in = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), *dense(512, 4096, 4096, num_classes))


def resnet50(num_classes: int) -> nn.Sequential:
    """ResNet-50 for images of 3 x 32 x 32: 16 bottleneck blocks, 23.7 million parameters.

    It is that of He et al. 2016 (arXiv 1512.03385, Table 1), with the usual first layer for small
    images: a 3 x 3 convolution of stride 1 without pooling, so the cut at 1 sends 64 x 32 x 32
    activations.
    """
    layers: list[nn.Module] = [*conv_bn(3, 64, 3), nn.ReLU()]
    width_in = 64
    for width, num_blocks, stride in RESNET50_STAGES:
        for block in range(num_blocks):
            layers.append(Bottleneck(width_in, width, stride if block == 0 else 1))
            width_in = 4 * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dense(width_in, num_classes)
    )


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up, added to the shortcut (He et al. 2016, Figure 5, right)."""

    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.residual = nn.Sequential(
            *conv_bn(width_in, width, 1),
            nn.ReLU(),
            # In the paper the first 1 x 1 has the stride, which would skip three of four pixels.
            *conv_bn(width, width, 3, stride),
            nn.ReLU(),
            *conv_bn(width, 4 * width, 1),
        )
        same_shape = width_in == 4 * width and stride == 1
        shortcut = [] if same_shape else conv_bn(width_in, 4 * width, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(
        self, x: Float[Tensor, "batch channels_in rows columns"]
    ) -> Float[Tensor, "batch channels_out rows_out columns_out"]:
        return torch.relu(self.residual(x) + self.shortcut(x))


def conv_bn(width_in: int, width: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias, and the BatchNorm after it, which has one."""
    conv = nn.Conv2d(width_in, width, kernel, stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(width)]


def dense(*widths: int) -> list[nn.Module]:
    """Linear layers with ReLU between them, then the log-probabilities of the classes."""
    layers: list[nn.Module] = []
    for width_in, width in pairwise(widths):
        layers += [nn.Linear(width_in, width), nn.ReLU()]
    return [*layers[:-1], nn.LogSoftmax(dim=1)]
