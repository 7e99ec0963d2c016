"""Models as a list of layers, so that ``model[:cut], model[cut:]`` is the split.

Not here: parties and training. All models return log-probabilities for ``nn.NLLLoss``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["mcmahan_2nn", "mcmahan_cnn", "resnet50", "seeded", "splitnn_mlp", "vgg16"]

_VGG16_WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, weights are drawn from ``seed``; afterwards torch's global RNG is as it was before.

    Layers take their first weights from the global CPU generator and offer no argument for it, so
    this lends them a seeded one. Weights are drawn on the CPU whatever the default device is, so
    that a seed means the same weights on every machine; move the model afterwards with ``.to``.
    Under ``torch.device("meta")`` the model has shapes only, and costs no memory.

    >>> with seeded(3):
    ...     a = nn.Linear(2, 2)
    >>> with seeded(3):
    ...     b = nn.Linear(2, 2)
    >>> torch.equal(a.weight, b.weight)
    True
    """
    device = torch.device("meta" if torch.empty(0).is_meta else "cpu")
    with torch.random.fork_rng(devices=[]), device:
        # Not torch.manual_seed: that would also seed every GPU, and leave it so.
        torch.default_generator.manual_seed(seed)
        yield


def splitnn_mlp(num_features: int = 784, num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The network of the classic PySyft SplitNN tutorial: 784-128-640 at Alice, 640-10 at Bob.

    Cut at 4: for MNIST the bottom has 183,040 parameters, the top 6,410, and a sample sends 640
    activations. A cut at 2 sends 128. Inputs are flat: ``"batch num_features"``.

    >>> model = splitnn_mlp(seed=0)
    >>> bottom, top = model[:4], model[4:]
    >>> sum(p.numel() for p in bottom.parameters()), sum(p.numel() for p in top.parameters())
    (183040, 6410)
    """
    with seeded(seed):
        return nn.Sequential(
            nn.Linear(num_features, 128),
            nn.ReLU(),
            nn.Linear(128, 640),
            nn.ReLU(),
            nn.Linear(640, num_classes),
            nn.LogSoftmax(dim=1),
        )


def mcmahan_2nn(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The "2NN" of the first federated averaging paper, 784-200-200-10: 199,210 parameters.

    McMahan et al. 2017, arXiv 1602.05629, section 3. Inputs are flat: ``"batch 784"``.
    """
    with seeded(seed):
        return nn.Sequential(
            *(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU()),
            *(nn.Linear(200, num_classes), nn.LogSoftmax(dim=1)),
        )


def mcmahan_cnn(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The CNN of the first federated averaging paper, for 1 x 28 x 28: 1,663,370 parameters.

    Two 5 x 5 convolutions of 32 and 64 channels with 2 x 2 pooling, then 512 units (McMahan et al.
    2017, arXiv 1602.05629, section 3). TensorFlow Federated's compression tutorial uses it too.
    """
    with seeded(seed):
        return nn.Sequential(
            *(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, num_classes), nn.LogSoftmax(dim=1)),
        )


def vgg16(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """VGG-16 for images of 3 x 32 x 32: 13 convolutions, then 512-4096-4096-``num_classes``.

    Configuration D of Simonyan & Zisserman 2014 (arXiv 1409.1556), whose five poolings take 32
    pixels down to one; 332.1 million multiply-accumulates per image. Convolution and ReLU are
    separate items: cut at 2 is after the first layer, with 64 x 32 x 32 activations. The paper's
    dropout is left out, because its masks come from the global RNG; so is any BatchNorm.
    """
    layers: list[nn.Module] = []
    with seeded(seed):
        width_in = 3
        for widths in _VGG16_WIDTHS:
            for width in widths:
                layers += [nn.Conv2d(width_in, width, 3, padding=1), nn.ReLU()]
                width_in = width
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.Flatten())
        layers += [nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()]
        layers += [nn.Linear(4096, num_classes), nn.LogSoftmax(dim=1)]
        return _he_init(nn.Sequential(*layers))


def resnet50(num_classes: int = 100, *, seed: int) -> nn.Sequential:
    """ResNet-50 for images of 3 x 32 x 32: 16 bottleneck blocks, 23.7 million parameters.

    He et al. 2016 (arXiv 1512.03385, Table 1), with the usual stem for small images: a 3 x 3
    convolution of stride 1 without pooling, so the cut at 1 sends 64 x 32 x 32 activations. Items:
    conv, BatchNorm, ReLU, the 16 blocks, pool, flatten, linear, log-softmax. A block is one item:
    its shortcut cannot be cut through.
    """
    with seeded(seed):
        layers: list[nn.Module] = [*_conv_bn(3, 64, 3), nn.ReLU()]
        width_in = 64
        for width, num_blocks, stride in _RESNET50_STAGES:
            for block in range(num_blocks):
                layers.append(_Bottleneck(width_in, width, stride if block == 0 else 1))
                width_in = 4 * width
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        layers += [nn.Linear(width_in, num_classes), nn.LogSoftmax(dim=1)]
        return _he_init(nn.Sequential(*layers))


class _Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up, added to the shortcut (He et al. 2016, Figure 5, right)."""

    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.residual = nn.Sequential(
            *_conv_bn(width_in, width, 1),
            nn.ReLU(),
            # The paper strides in the first 1 x 1, which would skip three pixels of four.
            *_conv_bn(width, width, 3, stride),
            nn.ReLU(),
            *_conv_bn(width, 4 * width, 1),
        )
        same_shape = width_in == 4 * width and stride == 1
        self.shortcut = nn.Sequential(
            *([] if same_shape else _conv_bn(width_in, 4 * width, 1, stride))
        )

    def forward(
        self, x: Float[Tensor, "batch channels_in rows columns"]
    ) -> Float[Tensor, "batch channels_out rows_out columns_out"]:
        return torch.relu(self.residual(x) + self.shortcut(x))


def _conv_bn(width_in: int, width: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias and the BatchNorm that has one."""
    conv = nn.Conv2d(width_in, width, kernel, stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(width)]


def _he_init(model: nn.Sequential) -> nn.Sequential:
    """Weights of variance 2 / fan_in (He et al. 2015, arXiv 1502.01852, eq. 10), biases zero.

    torch's default has a variance six times smaller: 16 layers on, the signal would be gone.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model
