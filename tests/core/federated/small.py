"""What several test files of this room share: a model of one number, and a small network."""

from functools import partial

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated import Local, LocalUpdate, local_update
from fltoolkit.federated.workers import client_seed
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


FOUR = workers()
LOCAL = Local(4, lr=0.1, steps=3)
ADAM = partial(torch.optim.AdamW, lr=0.02)
INNER = Local(4, optimizer=ADAM, steps=3, keep_state=True)


def trained(protocol, clients=FOUR, rounds=1, cohort=4, local=LOCAL, model=None, **how):
    """The model, the channel and the records of a run."""
    model, channel = model or network(), Channel()
    how |= {"rounds": rounds, "cohort": cohort, "local": local}
    return model, channel, list(protocol(model, clients, channel, **how))


def plain_ends(module, starts, round_, states):
    """Where `local_update` leads each worker; ``states`` of the optimizers, renewed in place."""
    ends = {}
    for worker, start in starts.items():
        how = {"seed": client_seed(2, round_, worker), "state": states.get(worker)}
        update = local_update(module, start, *FOUR[worker], INNER, **how)
        states[worker] = update.state
        ends[worker] = {name: start[name] + delta for name, delta in update.delta.items()}
    return ends


def three_layers(seed=0):
    """A row of layers with one hidden matrix, of 7 x 12."""
    with seeded(seed):
        layers = [nn.Linear(*size) for size in ((5, 12), (12, 7), (7, 3))]
        head = nn.Sequential(nn.Tanh(), layers[2], nn.LogSoftmax(1))
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], head)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def same(one, other):
    """Of states: dicts and lists of tensors and plain values, to the bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
