"""Models as lists of layers, so that ``model[:cut], model[cut:]`` splits them.

Not here: parties and training. All models return log-probabilities for ``nn.NLLLoss``.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

__all__ = [
    "generate",
    "gpt",
    "mcmahan_2nn",
    "mcmahan_cnn",
    "resnet50",
    "seeded",
    "splitnn_mlp",
    "vgg16",
]

_VGG16_WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
_RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside this context, weights are drawn from ``seed``; torch's global generator is restored.

    Layers draw their first weights from the global CPU generator, so a seed gives the same weights
    on every machine; move the model to another device afterwards with ``.to``. Under
    ``torch.device("meta")`` the model has shapes only and takes no memory.

    >>> with seeded(3):
    ...     round(nn.Linear(1, 1).weight.item(), 4)
    -0.9915
    """
    device = torch.device("meta" if torch.empty(0).is_meta else "cpu")
    with torch.random.fork_rng(devices=[]), device:
        # Not torch.manual_seed: it would also seed every GPU, and not restore it.
        torch.default_generator.manual_seed(seed)
        yield


def splitnn_mlp(num_features: int = 784, num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The network of the classic PySyft SplitNN tutorial: 784-128-640 at Alice, 640-10 at Bob.

    The tutorial cuts at 4: each sample of MNIST sends 640 activations. With a cut at 2, it sends
    128. Inputs are flat: ``"batch num_features"``.

    >>> model = splitnn_mlp(seed=0)
    >>> bottom, top = model[:4], model[4:]
    >>> sum(p.numel() for p in bottom.parameters()), sum(p.numel() for p in top.parameters())
    (183040, 6410)
    """
    with seeded(seed):
        return nn.Sequential(*_dense(num_features, 128, 640, num_classes))


def mcmahan_2nn(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The "2NN" of the first federated averaging paper, 784-200-200-10: 199,210 parameters.

    McMahan et al. 2017, arXiv 1602.05629, section 3. Inputs are flat: ``"batch 784"``.

    >>> sum(p.numel() for p in mcmahan_2nn(seed=0).parameters())
    199210
    """
    with seeded(seed):
        return nn.Sequential(*_dense(784, 200, 200, num_classes))


def mcmahan_cnn(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """The CNN of the first federated averaging paper, for 1 x 28 x 28: 1,663,370 parameters.

    Two 5 x 5 convolutions of 32 and 64 channels with 2 x 2 pooling, then 512 units (McMahan et al.
    2017, arXiv 1602.05629, section 3). TensorFlow Federated's compression tutorial uses it too.

    >>> sum(p.numel() for p in mcmahan_cnn(seed=0).parameters())
    1663370
    """
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            *_dense(3136, 512, num_classes),
        )


def vgg16(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """VGG-16 for images of 3 x 32 x 32: 13 convolutions, then 512-4096-4096-``num_classes``.

    It is configuration D of Simonyan & Zisserman 2014 (arXiv 1409.1556), without dropout; it takes
    332.1 million multiply-accumulates for each image. Convolution and ReLU are separate items: a
    cut at 2 is after the first layer, with 64 x 32 x 32 activations.

    >>> with torch.device("meta"):
    ...     model = vgg16(seed=0)
    >>> model[:2](torch.empty(1, 3, 32, 32, device="meta")).shape
    torch.Size([1, 64, 32, 32])
    """
    layers: list[nn.Module] = []
    with seeded(seed):
        width_in = 3
        for widths in _VGG16_WIDTHS:
            for width in widths:
                layers += [nn.Conv2d(width_in, width, 3, padding=1), nn.ReLU()]
                width_in = width
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Flatten(), *_dense(512, 4096, 4096, num_classes)]
        return _he_init(nn.Sequential(*layers))


def resnet50(num_classes: int = 100, *, seed: int) -> nn.Sequential:
    """ResNet-50 for images of 3 x 32 x 32: 16 bottleneck blocks, 23.7 million parameters.

    It is that of He et al. 2016 (arXiv 1512.03385, Table 1), with the usual first layer for small
    images: a 3 x 3 convolution of stride 1 without pooling, so the cut at 1 sends 64 x 32 x 32
    activations. The items are: conv, BatchNorm, ReLU, the 16 blocks, pool, flatten, linear,
    log-softmax. A block is one item, because the network cannot be cut inside a shortcut.

    >>> with torch.device("meta"):
    ...     model = resnet50(seed=0)
    >>> sum(p.numel() for p in model.parameters()), len(model)
    (23705252, 23)
    """
    with seeded(seed):
        layers: list[nn.Module] = [*_conv_bn(3, 64, 3), nn.ReLU()]
        width_in = 64
        for width, num_blocks, stride in _RESNET50_STAGES:
            for block in range(num_blocks):
                layers.append(_Bottleneck(width_in, width, stride if block == 0 else 1))
                width_in = 4 * width
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *_dense(width_in, num_classes)]
        return _he_init(nn.Sequential(*layers))


def gpt(
    num_characters: int,
    *,
    context: int = 64,
    num_layers: int = 2,
    width: int = 64,
    num_heads: int = 4,
    seed: int,
) -> nn.Sequential:
    """A small GPT as a row of items: embedding, ``num_layers`` blocks, head; any cut is possible.

    The input is character numbers, int64 [batch, characters], at most ``context`` of them. The
    output is log-probabilities [batch, num_characters, characters]: the classes are the second
    dimension, as ``nn.NLLLoss`` needs it for labels [batch, characters]. No weight is shared
    between items, so a cut never divides a weight between two parties. There is no dropout.

    Radford et al. 2019 (GPT-2): layer norm before attention and before the feed-forward part, no
    bias in the linear layers of a block, GELU, and weights with a standard deviation of 0.02. The
    weights of the layers whose output is added to the residual stream are multiplied by 1 / sqrt(2
    layers).

    >>> model = gpt(65, seed=0)
    >>> sum(p.numel() for p in model.parameters())
    111425
    >>> model(torch.zeros(1, 5, dtype=torch.int64)).shape
    torch.Size([1, 65, 5])
    """
    if width % num_heads:
        raise ValueError(f"width={width}, num_heads={num_heads}: heads must divide the width")
    with seeded(seed):
        embedding = _Embedding(num_characters, context, width)
        blocks = [_Block(width, num_heads, num_layers) for _ in range(num_layers)]
        return nn.Sequential(embedding, *blocks, _Head(width, num_characters))


@torch.no_grad()
def generate(
    model: nn.Module,
    start: Int64[Tensor, " start"],
    length: int,
    *,
    context: int,
    generator: torch.Generator | None = None,
) -> Int64[Tensor, " characters"]:
    """``start`` and ``length`` more characters, each predicted from the ``context`` before it.

    Without ``generator`` each character is the most likely one (greedy); with it, each is drawn as
    likely as the model says. The model computes in the mode that it is in. Its output must be
    log-probabilities [batch, num_characters, characters], as of `gpt`. Raises ValueError if there
    is nothing to start from or a count is too small, and FloatingPointError if the output is NaN.

    >>> model, start = gpt(5, context=8, width=16, seed=0), torch.tensor([3])
    >>> generate(model, start, 4, context=8).shape
    torch.Size([5])
    """
    if start.dim() != 1 or not len(start):
        raise ValueError(f"start has the shape {list(start.shape)}: give one character or more")
    if length < 0 or context < 1:
        raise ValueError(
            f"length={length}, context={context}: a length of 0 or more, a context of 1 or more"
        )
    ids = start
    for _ in range(length):
        logs = model(ids[None, -context:])[0, :, -1]
        if logs.isnan().any():
            raise FloatingPointError("the model's output is NaN: it has diverged")
        drawn = (
            logs.argmax()
            if generator is None
            else torch.multinomial(logs.exp(), 1, generator=generator)
        )
        ids = torch.cat([ids, drawn.reshape(1)])
    return ids


class _Embedding(nn.Module):
    """A vector for each character, plus a vector for its place."""

    def __init__(self, num_characters: int, context: int, width: int):
        super().__init__()
        self.what = nn.Embedding(num_characters, width)
        self.where = nn.Embedding(context, width)
        for table in (self.what, self.where):
            nn.init.normal_(table.weight, std=0.02)

    def forward(
        self, x: Int[Tensor, "batch characters"]
    ) -> Float[Tensor, "batch characters width"]:
        if x.shape[1] > len(self.where.weight):
            raise ValueError(
                f"windows of {x.shape[1]} characters: this gpt has context="
                f"{len(self.where.weight)}. Cut the windows, or make a gpt with a larger context"
            )
        what: Tensor = self.what(x)
        return what + self.where.weight[: x.shape[1]]


class _Block(nn.Module):
    """Attention to the places before, then a feed-forward part for each place."""

    def __init__(self, width: int, num_heads: int, num_layers: int):
        super().__init__()
        self.num_heads = num_heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        for linear in (self.qkv, self.up):
            nn.init.normal_(linear.weight, std=0.02)
        for linear in (self.out, self.down):
            nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * num_layers))

    def forward(
        self, h: Float[Tensor, "batch characters width"]
    ) -> Float[Tensor, "batch characters width"]:
        h = h + self._attention(self.norm_1(h))
        change: Tensor = self.down(nn.functional.gelu(self.up(self.norm_2(h))))
        return h + change

    def _attention(
        self, h: Float[Tensor, "batch characters width"]
    ) -> Float[Tensor, "batch characters width"]:
        """Attention, written out: vmap has no rule for torch's fused one, and is slow with it."""
        size = h.shape[1]
        q, k, v = (  # [batch, heads, characters, width / heads] each
            part.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for part in self.qkv(h).chunk(3, dim=2)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        later = torch.ones(size, size, dtype=torch.bool, device=h.device).triu(1)
        looks = scores.masked_fill(later, -math.inf).softmax(dim=3)
        mixed: Tensor = self.out((looks @ v).transpose(1, 2).flatten(2))
        return mixed


class _Head(nn.Module):
    """The log-probability of each character to come next; the classes are the second dimension."""

    def __init__(self, width: int, num_characters: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, num_characters)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(
        self, h: Float[Tensor, "batch characters width"]
    ) -> Float[Tensor, "batch num_characters characters"]:
        logits: Tensor = self.linear(self.norm(h))
        return logits.log_softmax(dim=2).transpose(1, 2)


class _Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up, added to the shortcut (He et al. 2016, Figure 5, right)."""

    def __init__(self, width_in: int, width: int, stride: int):
        super().__init__()
        self.residual = nn.Sequential(
            *_conv_bn(width_in, width, 1),
            nn.ReLU(),
            # In the paper the first 1 x 1 has the stride, which would skip three of four pixels.
            *_conv_bn(width, width, 3, stride),
            nn.ReLU(),
            *_conv_bn(width, 4 * width, 1),
        )
        same_shape = width_in == 4 * width and stride == 1
        shortcut = [] if same_shape else _conv_bn(width_in, 4 * width, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(
        self, x: Float[Tensor, "batch channels_in rows columns"]
    ) -> Float[Tensor, "batch channels_out rows_out columns_out"]:
        return torch.relu(self.residual(x) + self.shortcut(x))


def _conv_bn(width_in: int, width: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias, and the BatchNorm after it, which has one."""
    conv = nn.Conv2d(width_in, width, kernel, stride, padding=kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(width)]


def _dense(*widths: int) -> list[nn.Module]:
    """Linear layers with ReLU between them, then the log-probabilities of the classes."""
    layers: list[nn.Module] = []
    for width_in, width in pairwise(widths):
        layers += [nn.Linear(width_in, width), nn.ReLU()]
    return [*layers[:-1], nn.LogSoftmax(dim=1)]


def _he_init(model: nn.Sequential) -> nn.Sequential:
    """Weights of variance 2 / fan_in (He et al. 2015, arXiv 1502.01852, eq. 10), and zero biases.

    The variance of torch's default is six times smaller: after 16 layers almost no signal would be
    left.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model
