"""One bit per value: masks of random noise that a seed makes, beside codecs of one bit.

FedMRN (Li et al. 2024, arXiv 2408.03220): a client learns which values of fixed random noise are
added to the weights, and sends a bit for each and the seed of the noise. Read from the authors'
program (github.com/Leopold1423/fedmrn-mm24, model/srn.py): the noise is uniform, the gradient goes
straight through the mask, and with every local step more values are masked. There linear layers
have no biases; here biases are masked like weights. It is not in the package: the page says why.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from experiments.newer import seeds
from experiments.newer.setting import Setting, product
from experiments.null_rows import ALONE, ONE_BIT, SEND
from experiments.replications.personal import AtHome
from experiments.runs import Result
from fltoolkit import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline, Quantize
from fltoolkit.federated import Local
from fltoolkit.federated.client import batch_indices, loss_of
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import client_seed
from fltoolkit.history import Record
from fltoolkit.trees import Tree
from fltoolkit_research.codecs import DRIVE, Sign

SERVER = "server"
RATES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True)
class Masks:
    """Masks of noise between -size and size: 0 and 1, or if ``signed`` -1 and 1."""

    size: float
    signed: bool
    learned: bool = True  # False: drawn after plain training

    def noise(self, seed: int, n: int) -> Tensor:
        """The noise of a seed, the same at both ends; no value is zero."""
        drawn = self.size * (2 * torch.rand(n, generator=torch.Generator().manual_seed(seed)) - 1)
        return torch.where(drawn.abs() < 1e-8, 1e-8, drawn)

    def chances(self, update: Tensor, noise: Tensor) -> Tensor:
        """How likely each bit is 1: so that the masked noise is the clipped update on average."""
        share = update / noise
        return ((share + 1) / 2 if self.signed else share).clamp(0, 1)

    def of(self, bits: Tensor, noise: Tensor) -> Tensor:
        """The masked noise; of chances in place of bits it is the clipped update."""
        return noise * (2 * bits - 1 if self.signed else bits)

    def train(
        self, model: nn.Module, noise: Tensor, x: Tensor, y: Tensor, local: Local, seed: int
    ) -> Tensor:
        """The bits that a client sends after its local steps."""
        random, model = torch.Generator().manual_seed(seed), copy.deepcopy(model)
        params, lr, steps = list(model.parameters()), local.lr or 0.0, local.steps or 1
        start, update = parameters_to_vector(params).detach(), torch.zeros_like(noise)
        for step, rows in enumerate(batch_indices(len(y), local, seed), 1):
            used = update
            if self.learned:
                chance = self.chances(update, noise)
                bits = torch.bernoulli(chance, generator=random)
                masked = torch.rand(len(noise), generator=random) < step / steps
                used = self.of(torch.where(masked, bits, chance), noise)
            vector_to_parameters(start + used, params)
            loss = loss_of(local.loss_fn, model(x[rows]), y[rows])
            grads = torch.autograd.grad(loss, params)
            update = update - lr * parameters_to_vector(grads)
        if not update.isfinite().all():
            raise FloatingPointError("local training has diverged")
        return torch.bernoulli(self.chances(update, noise), generator=random)


def fedmrn(
    model: nn.Module,
    clients: Clients,
    channel: Channel,
    *,
    rounds: int,
    local: Local,
    masks: Masks,
    seed: int,
) -> Iterator[Record]:
    """All clients in each round: the model goes down, a bit per value and a seed come up."""
    totals = channel.begin({*clients}, [model], sends_weights=True)
    params = list(model.parameters())
    n = sum(p.numel() for p in params)
    for round_ in range(rounds):
        channel.step, total = round_ + 1, torch.zeros(n)
        for k, (x, y) in clients.items():
            own = copy.deepcopy(model)
            own.load_state_dict(channel.send(SERVER, k, "model", model.state_dict()))
            at = client_seed(seed, round_, k)
            bits = masks.train(own, masks.noise(at, n), x, y, local, at)
            got = channel.send(k, SERVER, "update", packed(bits, at))
            noise = masks.noise(int(got["seed"]) & 0xFFFF_FFFF, n)
            total += masks.of(unpacked(got["bits"], n), noise) / len(clients)
        vector_to_parameters(parameters_to_vector(params).detach() + total, params)
        yield {"round": round_, "step": channel.step, **totals()}


def packed(bits: Tensor, seed: int) -> Tree:
    """The message of a client: eight bits in a byte, and four bytes of seed."""
    whole = np.packbits(bits.numpy().astype(np.uint8))
    return {
        "bits": torch.from_numpy(whole),
        "seed": torch.from_numpy(np.array(seed, np.uint32).view(np.int32)),
    }


def unpacked(whole: Tensor, n: int) -> Tensor:
    """The bits of a message, as float32."""
    return torch.from_numpy(np.unpackbits(whole.numpy(), count=n)).float()


CODECS: dict[str, Codec] = {
    "signs, with error feedback": ErrorFeedback(Pipeline(Sign())),
    "DRIVE, which is EDEN of 1 bit": Pipeline(DRIVE()),
    "stochastic rounding to 1 bit": Pipeline(Quantize(1, stochastic=True)),
}
MASKS = {
    "FedMRN, masks of 0 and 1": Masks(0.01, signed=False),
    "FedMRN, masks of -1 and 1": Masks(0.01, signed=True),
    "masks of -1 and 1, after training": Masks(0.01, signed=True, learned=False),
}


def run(setting: Setting, seed: int) -> Result:
    """Train once; the accuracy of the model and the bytes."""
    codec = CODECS.get(setting.name)
    return seeds.run(setting, seed, records, {} if codec is None else {"update": codec})


def records(
    setting: Setting,
    model: nn.Module,
    owners: Clients,
    channel: Channel,
    at_home: AtHome,
    seed: int,
) -> Iterator[Record]:
    """The training of one row."""
    if setting.name not in MASKS:
        return seeds.records(setting, model, owners, channel, at_home, seed)
    masks = replace(MASKS[setting.name], size=setting.options["noise"])
    local = Local(seeds.BATCH, lr=setting.options["lr"], steps=seeds.STEPS)
    how: dict[str, Any] = {"rounds": seeds.ROUNDS, "local": local, "masks": masks, "seed": seed}
    return fedmrn(model, owners, channel, **how)


ONE_BIT_EACH = replace(
    seeds.FROM_SCRATCH,
    name="bits",
    title="One bit per value: digits, four owners with equal shares",
    grids={
        **dict.fromkeys(("FedAvg", *CODECS), product(lr=RATES)),
        **dict.fromkeys(MASKS, product(lr=(0.2, 0.4), noise=(0.01, 0.03, 0.1))),
        **dict.fromkeys((ALONE, SEND, ONE_BIT), product(lr=RATES)),
    },
    reference="DRIVE, which is EDEN of 1 bit",
    run=run,
)
