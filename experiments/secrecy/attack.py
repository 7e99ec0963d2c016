"""What an attacker reconstructs from one client's update, from a masked one, and from a sum.

Each client holds one image and sends the gradient of its loss. In the clear that gives the image
away: in a dense layer the gradient of neuron i's weights is the image times the gradient of its
bias, so the attacker divides (Geiping et al. 2020, arXiv 2003.14053, proposition 3.1). The quotient
goes through `train_decoder`, which learns on images of the attacker's own what can be made of it,
also where nothing can.
"""

import time

import numpy as np
import torch
from torch import Tensor, nn

from experiments.leakage.run import dataset, prior
from experiments.runs import Result
from experiments.secrecy.run import network
from experiments.secrecy.settings import TOPS
from fltoolkit.codecs import Pipeline
from fltoolkit_research.leakage import Listener, explained_variance, train_decoder
from fltoolkit_research.secrecy import Grid, SharedRotation, bits_of_sum, secure_sum
from fltoolkit_research.secrecy.parties import unpack_bits
from fltoolkit_research.secrecy.summing import Summed

SEEN = ("one update", "sum of 10", "sum of 100", "one masked update")


def attack(data_name: str, bits: int, num_own: int, num_victims: int, seed: int) -> Result:
    """The explained variance of images by what the server sees: 1 all, 0 nothing."""
    start, data = time.perf_counter(), dataset(data_name)
    model = network(data, 32, seed)
    x, y = images(data_name, num_own + num_victims, seed)
    gradients = torch.stack([one_gradient(model, x[k], y[k]) for k in range(len(x))])
    if bits == 24:
        codec = Pipeline(Grid(24, top=float(gradients.abs().max())))
    else:  # a range for rotated values of the typical length
        top = TOPS[bits] * float(gradients.square().mean().sqrt())
        codec = Pipeline(SharedRotation(), Grid(bits, top=top))
    summed = Summed(codec, gradients.shape[1], round_=1)
    numbers = np.stack([summed.numbers(g, salt=k) for k, g in enumerate(gradients)])
    numbers = numbers.astype(np.uint32)
    random = np.random.default_rng(seed)

    def sums_of(count: int) -> Tensor:
        """For each image: the mean of its gradient and of count - 1 others."""
        seen = []
        for k in range(len(x)):
            pool = np.arange(num_own) if k < num_own else np.arange(num_own, len(x))
            others = random.choice(pool[pool != k], count - 1, replace=False)
            total = numbers[[k, *others]].astype(np.uint64).sum(0)
            seen.append(quotient(model, summed.mean(total, count)))
        return torch.stack(seen)

    views = {
        "one update": lambda: sums_of(1),
        "sum of 10": lambda: sums_of(10),
        "sum of 100": lambda: sums_of(100),
        "one masked update": lambda: masked_views(model, summed, numbers),
    }
    found = {}
    for what in SEEN:
        z = views[what]()
        decoder = train_decoder(z[:num_own], x[:num_own], seed=seed, max_epochs=20)
        guess = decoder(z[num_own:])
        found[what] = explained_variance(guess, x[num_own:], decoder.mean_input)
    seconds = time.perf_counter() - start
    return {"what": "attack", "bits": bits, "seed": seed, "found": found, "seconds": seconds}


def images(data_name: str, num: int, seed: int) -> tuple[Tensor, Tensor]:
    """So many images and their labels: first the attacker's own, then the victims'."""
    data = dataset(data_name)
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(seed))
    return data.x_train[order[:num]], data.y_train[order[:num]]


def before(data_name: str, num_own: int, num_victims: int, seed: int) -> Result:
    """The explained variance of the same images without any message."""
    x, y = images(data_name, num_own + num_victims, seed)
    found = prior(x[:num_own], y[:num_own], x[num_own:], y[num_own:])
    return {"what": "before", "seed": seed, "found": found, "seconds": 0.0}


def masked_views(model: nn.Sequential, summed: Summed, numbers: np.ndarray) -> Tensor:
    """What the attacker makes of each image's masked vector, read as if it were no masked one."""
    bits, seen = bits_of_sum(2, summed.num_levels), []
    for k, own in enumerate(numbers):
        channel = Listener(kinds=["masked"])
        pair = {"victim": own.astype(np.uint64), "other": numbers[k - 1].astype(np.uint64)}
        secure_sum(channel, "server", pair, bits=bits)
        packed = next(m.tree["y"] for m in channel.heard if m.sender == "victim")
        hidden = unpack_bits(packed.numpy(), bits, len(own)).astype(np.uint64)
        seen.append(quotient(model, summed.mean(hidden % np.uint64(summed.num_levels), 1)))
    return torch.stack(seen)


def one_gradient(model: nn.Sequential, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of one image's loss, all parameters in a row."""
    loss = nn.functional.nll_loss(model(x[None]), y[None])
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*model.parameters()])])


def quotient(model: nn.Sequential, gradient: Tensor) -> Tensor:
    """The image that would make this gradient: a neuron's weights divided by its bias.

    Of the neuron whose bias has the largest gradient. Values beyond the range of pixels are cut.
    """
    weight = model[0].weight
    rows = gradient[: weight.numel()].view(weight.shape)
    bias = gradient[weight.numel() :][: len(weight)]
    i = int(bias.abs().argmax())
    divisor = bias[i] if bias[i] else torch.ones(())
    return (rows[i] / divisor).clamp(-1, 3)
