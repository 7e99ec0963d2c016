"""What several test files of this room share: a model of one number, and a small network."""

import torch
from torch import nn

from fltoolkit.federated import LocalUpdate
from fltoolkit.models import seeded
from fltoolkit.testing import normal


class One(nn.Module):
    """A model of one number."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))


def number(value, num_samples=1):
    return torch.full((num_samples, 1), float(value)), torch.zeros(num_samples)


def walk_by_x(module, starts, data, local, *, seeds):
    """Local training that moves w by the client's number."""
    return [LocalUpdate({"w": x[0, 0].clone()}, float(x[0, 0]), len(y), 1) for x, y in data]


def column(records, key):
    return [record[key] for record in records]


def network(seed=0):
    with seeded(seed):
        return nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3), nn.LogSoftmax(1))


def workers(count=4, each=8):
    x = normal(count * each, 5, seed=1)
    y = x.argmax(1) % 3
    return {f"w{k}": (x[k * each :][:each], y[k * each :][:each]) for k in range(count)}


def three_layers(seed=0):
    """A row of layers with one hidden matrix, of 7 x 12."""
    with seeded(seed):
        layers = [nn.Linear(*size) for size in ((5, 12), (12, 7), (7, 3))]
        head = nn.Sequential(nn.Tanh(), layers[2], nn.LogSoftmax(1))
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], head)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])
