"""One run of one setting: bytes and accuracy as they grow."""

import math
import time

import torch
from torch import Tensor, nn

from experiments.runs import Result
from experiments.send_data.pictures import Pictures, pictures, shares
from experiments.send_data.settings import ORIGINAL, Sent, Setting, Together
from experiments.send_data.training import Owners, Pixels, accuracy, learn, network, standardized
from fltoolkit import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline
from fltoolkit.federated import Fleet, Local, fedavg
from fltoolkit_research.codecs import STC, ContextEntropy, Difference


class Change(nn.Module):
    """What has changed since the first model, which everybody makes from a seed: one vector."""

    def __init__(self, number: int):
        super().__init__()
        self.change = nn.Parameter(torch.zeros(number))


def run(_task: None, setting: Setting, seed: int, device: str) -> Result:
    """Bytes and accuracies of one run."""
    torch.backends.cudnn.deterministic = True
    start, place = time.perf_counter(), torch.device(device)
    form = setting.form if isinstance(setting, Sent) else ORIGINAL
    data = pictures(form)
    x_test, y_test = data.x_test[: setting.num_test], data.y_test[: setting.num_test]
    how = seed, data, (standardized(x_test, place), y_test.to(place)), place
    found = _sent(setting, *how) if isinstance(setting, Sent) else _together(setting, *how)
    return {
        **{"key": setting.key(None, seed), "kind": type(setting).__name__, "name": setting.name},
        **{"seed": seed, "device": device, **found},
        "seconds": round(time.perf_counter() - start, 1),
    }


def _together(
    setting: Together, seed: int, data: Pictures, test: tuple[Tensor, Tensor], device: torch.device
) -> Result:
    model = network(setting.widths, seed).to(device)
    server = Change(sum(p.numel() for p in model.parameters()))
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
    train = Owners(model, pixels, setting.slow)
    for owner in owners:  # the first model
        channel.send("server", owner, "control", {"seed": torch.tensor(seed)})
    curve: list[tuple[int, float]] = []
    size = {"rounds": setting.rounds, "cohort": setting.num_owners}
    rounds = fedavg(server, Fleet(owners, train), channel, **size, local=local, seed=seed)
    for number, _ in enumerate(rounds, 1):
        if number <= 20 or number % 5 == 0 or number == setting.rounds:
            train.put(server.change)
            curve.append((channel.nbytes(), round(accuracy(model, *test), 4)))
    up = channel.nbytes(kind="update")
    return {
        **{"rounds": setting.rounds, "nbytes": channel.nbytes(), "nbytes_up": up},
        "accuracy": curve[-1][1],
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
    sgd = torch.optim.SGD(
        model.parameters(), lr=setting.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    passes = min(setting.most_passes, max(setting.samples_seen // setting.num_sent, 1))
    total = passes * (setting.num_sent // setting.batch_size)
    done, whole = 0, torch.arange(len(rows))
    for epoch in range(passes):
        for x, y in pixels.batches(whole, setting.batch_size, seed, epoch):
            part = done / total  # up for a fifth of the steps, then down along a cosine
            lr = part / 0.2 if part < 0.2 else 0.5 + 0.5 * math.cos(math.pi * (part - 0.2) / 0.8)
            sgd.param_groups[0]["lr"] = setting.lr * lr
            learn(model, sgd, x, y)
            done += 1
    return {
        **{"nbytes": data.nbytes(rows), "accuracy": round(accuracy(model, *test), 4)},
        **{"num_sent": setting.num_sent, "passes": passes},
        "num_parameters": sum(p.numel() for p in model.parameters()),
    }
