"""One run of one setting: bytes and accuracy as they grow."""

import math
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from experiments.runs import Result
from experiments.send_data.pictures import Pictures, pictures, shares
from experiments.send_data.settings import ORIGINAL, Sent, Setting, Together, key
from experiments.send_data.training import (
    Owners,
    Pixels,
    Replicas,
    accuracy,
    batches,
    network,
    standardized,
)
from fltoolkit import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline
from fltoolkit.federated import Fleet, Local, fedavg
from fltoolkit_research.codecs import STC, ContextEntropy, Difference


class Change(nn.Module):
    """What has changed since the first model, which everybody makes from a seed: one vector."""

    def __init__(self, number: int):
        super().__init__()
        self.change = nn.Parameter(torch.zeros(number))


def run(setting: Setting, seed: int, cache: Path, device: str, deadline: float) -> Result:
    """Bytes and accuracies of one run; owners who average stop early at the deadline."""
    torch.set_num_threads(1)
    torch.backends.cudnn.deterministic = True
    start, place = time.perf_counter(), torch.device(device)
    form = setting.form if isinstance(setting, Sent) else ORIGINAL
    data = pictures(form, cache)
    test = (
        standardized(data.x_test[: setting.num_test], place),
        data.y_test[: setting.num_test].to(place),
    )
    found = (
        _together(setting, seed, data, test, place, deadline)
        if isinstance(setting, Together)
        else _sent(setting, seed, data, test, place)
    )
    return {
        **{"key": key(setting, seed), "kind": type(setting).__name__, "name": setting.name},
        **{"seed": seed, "device": device, **found},
        "seconds": round(time.perf_counter() - start, 1),
    }


def _together(
    setting: Together,
    seed: int,
    data: Pictures,
    test: tuple[Tensor, Tensor],
    device: torch.device,
    deadline: float,
) -> Result:
    first = network(setting.widths, seed)
    judge = network(setting.widths, seed).to(device)
    server = Change(sum(p.numel() for p in first.parameters()))
    owned = shares(setting.num_samples, setting.num_owners, seed)
    owners = {f"owner{k}": (rows, data.y_train[rows]) for k, rows in enumerate(owned)}
    channel = Channel(
        {
            "update": ErrorFeedback(Pipeline(STC(setting.up), ContextEntropy())),
            "model": Difference(Pipeline(STC(setting.down), ContextEntropy())),
        }
    )
    local = Local(batch_size=setting.batch_size, lr=setting.lr, epochs=setting.passes)
    pixels = Pixels(data.x_train[: setting.num_samples], data.y_train, device)
    train = Owners(first, pixels, setting.num_owners, local, setting.slow)
    for owner in owners:  # the first model
        channel.send("server", owner, "control", {"seed": torch.tensor(seed)})
    curve: list[tuple[int, float]] = []
    rounds = fedavg(
        server,
        Fleet(owners, train),
        channel,
        rounds=setting.rounds,
        cohort=setting.num_owners,
        local=local,
        seed=seed,
    )
    for number, _ in enumerate(rounds, 1):
        late = time.time() > deadline
        if late or number <= 20 or number % 5 == 0 or number == setting.rounds:
            right = accuracy(judge, train.start + server.change.detach(), *test)
            curve.append((channel.nbytes(), round(right, 4)))
        if late:
            break
    up = channel.nbytes(kind="update")
    return {
        **{"rounds": number, "nbytes": channel.nbytes(), "nbytes_up": up, "accuracy": curve[-1][1]},
        "nbytes_data": data.nbytes(torch.cat(owned)),
        "num_parameters": len(server.change),
        "curve": curve,
    }


def _sent(
    setting: Sent, seed: int, data: Pictures, test: tuple[Tensor, Tensor], device: torch.device
) -> Result:
    order = torch.randperm(setting.num_samples, generator=torch.Generator().manual_seed(seed))
    rows = order[: setting.num_sent]
    model = network(setting.widths, seed).to(device)
    pixels = Pixels(data.x_train[rows], data.y_train[rows], device)
    replicas = Replicas(model, 1, setting.batch_size, device, momentum=0.9, decay=5e-4)
    passes = min(setting.most_passes, max(setting.samples_seen // setting.num_sent, 1))
    in_pass = setting.num_sent // setting.batch_size
    done, total = 0, passes * in_pass
    for epoch in range(passes):
        for some in batches([torch.arange(len(rows))], setting.batch_size, [seed], epoch):
            part = done / total  # up for a fifth of the steps, then down along a cosine
            lr = part / 0.2 if part < 0.2 else 0.5 + 0.5 * math.cos(math.pi * (part - 0.2) / 0.8)
            pixels.step_all(replicas, some, setting.lr * lr)
            done += 1
    return {
        **{
            "nbytes": data.nbytes(rows),
            "accuracy": round(accuracy(model, replicas.weights()[0], *test), 4),
        },
        **{"num_sent": setting.num_sent, "passes": passes},
        "num_parameters": parameters_to_vector(model.parameters()).numel(),
    }
