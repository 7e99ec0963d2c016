"""A small language model, text that it continues, and features that nobody learns."""

import math

import torch
from torch import Tensor, nn

from fltoolkit.models import seeded
from fltoolkit.shapes import Float, Int, Int64

__all__ = ["generate", "gpt", "random_filters", "random_layer"]


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
    output is log-probabilities [batch, num_characters, characters], as ``nn.NLLLoss`` needs it for
    labels [batch, characters]. No weight is shared between items. There is no dropout.

    Radford et al. 2019 (GPT-2): layer norm before attention and before the feed-forward part, no
    bias in the linear layers of a block, GELU, weights with a standard deviation of 0.02, and in
    layers whose output is added to the residual stream 0.02 / sqrt(2 layers).

    >>> model = gpt(65, seed=0)
    >>> sum(p.numel() for p in model.parameters())
    111425
    >>> model(torch.zeros(1, 5, dtype=torch.int64)).shape
    torch.Size([1, 65, 5])
    """
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
    log-probabilities [batch, num_characters, characters], as of `gpt`. Raises FloatingPointError if
    the output is NaN.

    >>> model, start = gpt(5, context=8, width=16, seed=0), torch.tensor([3])
    >>> generate(model, start, 4, context=8).shape
    torch.Size([5])
    """
    ids = start
    for _ in range(length):
        logs = model(ids[None, -context:])[0, :, -1]
        if logs.isnan().any():
            raise FloatingPointError("the model's output is NaN: it has diverged")
        if generator is None:
            drawn = logs.argmax()
        else:
            drawn = torch.multinomial(logs.exp(), 1, generator=generator)
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


def random_filters(
    shape: tuple[int, int, int],
    num_filters: int,
    *,
    size: int = 5,
    num_classes: int = 10,
    seed: int,
) -> nn.Sequential:
    """A network of fixed random features and a linear layer: ``model[:5]`` and ``model[5:]``.

    Filters of Gaussian numbers, smoothed by a 3 x 3 mean; then ReLU, and the largest value in each
    of 3 x 3 parts of the picture: 9 features for each filter. They are whitened (zero-phase, so
    that the result does not depend on the signs of eigenvectors) for 4,000 pictures of smoothed
    noise, which are nobody's data: then sums of products need fewer bits. All of it comes from the
    seed, so it costs no byte. The first five layers are frozen.

    Args:
        shape: channels, height and width of a picture.
        num_filters: there are 9 times as many features; F features are F (F + 1) / 2 products.
        size: of a filter; about a third of the picture's side.
        num_classes: of the linear layer, whose output becomes log-probabilities.
        seed: of filters, noise and the linear layer's first weights.
    """
    channels, num_features = shape[0], 9 * num_filters
    with seeded(seed):
        filters = _smooth(torch.randn(num_filters, channels, size, size))
        noise = torch.randn(4000, *shape)
        head = nn.Linear(num_features, num_classes)
        convolution = nn.Conv2d(channels, num_filters, size, padding=size // 2, bias=False)
    noise = _smooth(_smooth(noise))
    with torch.no_grad():
        convolution.weight.copy_(filters / filters.flatten(1).norm(dim=1)[:, None, None, None])
    pooled = nn.Sequential(convolution, nn.ReLU(), nn.AdaptiveMaxPool2d(3), nn.Flatten())
    return _whitened(pooled, noise / noise.std(), head)


def random_layer(
    num_columns: int, num_features: int, *, num_classes: int = 2, seed: int
) -> nn.Sequential:
    """As `random_filters`, for the rows of a table: ``model[:3]`` and ``model[3:]``.

    The features are a random linear layer with ReLU, whitened for standard normal rows.
    """
    with seeded(seed):
        layer, head = nn.Linear(num_columns, num_features), nn.Linear(num_features, num_classes)
        noise = torch.randn(4000, num_columns)
    return _whitened(nn.Sequential(layer, nn.ReLU()), noise, head)


@torch.no_grad()
def _whitened(features: nn.Sequential, noise: Tensor, head: nn.Linear) -> nn.Sequential:
    """Frozen features that are white for the noise, then the head and log-probabilities."""
    z = features(noise).double()
    values, vectors = torch.linalg.eigh(torch.cov(z.T))
    weight = vectors / (values + 0.01 * values.mean()).sqrt() @ vectors.T
    with seeded(0):  # draws nothing from the global generator
        whitening = nn.Linear(len(weight), len(weight))
    whitening.weight.copy_(weight)
    whitening.bias.copy_(-weight @ z.mean(0))
    for p in (*features.parameters(), *whitening.parameters()):
        p.requires_grad_(False)
    return nn.Sequential(*features, whitening, head, nn.LogSoftmax(dim=1))


def _smooth(pictures: Float[Tensor, "n channels h w"]) -> Float[Tensor, "n channels h w"]:
    """The mean over 3 x 3 pixels, zeros beyond the edge."""
    return nn.functional.avg_pool2d(pictures, 3, stride=1, padding=1)
