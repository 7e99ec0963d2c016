"""What users give by mistake is named, with the client and what to do; what can be taken is."""

from functools import partial
from math import nan

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from fltoolkit.channel import Channel
from fltoolkit.data import Batches
from fltoolkit.evaluation import evaluate
from fltoolkit.federated import Arrivals, Drop, Fleet, Local, Server, fedavg
from fltoolkit.federated.samples import as_clients, check_fit
from fltoolkit.models import seeded

X, Y = torch.randn(9, 6, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3
LOCAL = Local(batch_size=4, lr=0.1, epochs=1)


def net(*last):
    with seeded(0):
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3), *last)


def start(clients, model=None, local=LOCAL, **settings):
    """The call alone: no record is asked for."""
    model = net(nn.LogSoftmax(dim=1)) if model is None else model
    return fedavg(model, clients, Channel(), **{"rounds": 2, "cohort": 1} | settings, local=local)


class Stream(IterableDataset):
    def __iter__(self):
        yield X[0], Y[0]


class Named(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, k):
        return {"pixels": X[k], "y": Y[k]}


WRONG = [
    ([(X, Y)], TypeError, "clients is a list: give a dict"),
    ({}, ValueError, "clients is empty"),
    ({3: (X, Y)}, TypeError, 'client 3 is named by a int: .* "client_3"'),
    ({"a": DataLoader(TensorDataset(X, Y))}, TypeError, r"has a DataLoader: .* loader\.dataset"),
    ({"a": Stream()}, TypeError, "a Stream has no item k: give a Dataset .* one over list"),
    ({"a": TensorDataset(X)}, TypeError, "TensorDataset: its items must be"),
    (
        {"a": Named()},
        TypeError,
        r"Named: its items must be \(x, y\).* dicts with the keys pixels, y",
    ),
    ({"a": [({"pixels": 1}, 0)]}, TypeError, "a list: give its samples|has a list"),
    ({"a": X}, TypeError, "client 'a' has a Tensor: give its samples and labels"),
    ({"a": ("x", Y)}, TypeError, "client 'a': x is a str, not a tensor"),
    ({"a": (X, Y.float())}, ValueError, r"client 'a': the loss .* y\.long\(\)"),
    ({"a": (X, nn.functional.one_hot(Y))}, ValueError, r"client 'a': the loss .* y\.argmax\(1\)"),
    ({"a": (X.view(9, 1, 2, 3), Y)}, ValueError, r"client 'a': the model .* x\.flatten\(1\)"),
    ({"a": (X.double(), Y)}, ValueError, r"client 'a': .* x\.to\(torch\.float32\)"),
    ({"a": (X[:0], Y[:0])}, ValueError, "client 'a' has 0 samples and 0 labels"),
    ({"a": (X, Y), "b": (X[:, :5], Y)}, ValueError, r"client 'b' has samples .* 'a' samples"),
    ({"a": (X, Y), "b": (X, Y.float())}, ValueError, "client 'b' has samples"),
]


def test_settings_that_no_round_could_use_are_named_at_once():
    model = net(nn.LogSoftmax(dim=1))
    with pytest.raises(ValueError, match=r"client 'b' has the label 7, and the model's 3 outputs"):
        start({"a": (X, Y), "b": (X, torch.full((9,), 7))})
    start({"a": (X, torch.full((9,), -100).index_fill(0, torch.arange(2), 1))})  # ignored
    extra = type("Extra", (nn.Linear,), {"get_extra_state": lambda layer: {"version": 1}})
    with pytest.raises(TypeError, match=r"'0\._extra_state' of the model's state is a dict"):
        start({"a": (X, Y)}, nn.Sequential(extra(6, 3), nn.LogSoftmax(dim=1)))
    lbfgs = Server(optimizer=torch.optim.LBFGS(model.parameters()))
    with pytest.raises(TypeError, match="'server': LBFGS needs a closure"):
        start({"a": (X, Y)}, model, server=lbfgs)
    run = start({"a": (X, Y)}, local=Local(4, optimizer=torch.optim.LBFGS, steps=1))
    with pytest.raises(TypeError, match="LBFGS needs a closure"):
        next(run)


@pytest.mark.parametrize(("clients", "kind", "message"), WRONG)
def test_what_cannot_be_learned_from_is_named_at_the_call(clients, kind, message):
    model = net(nn.LogSoftmax(dim=1))
    with pytest.raises(kind, match=message):  # the two checks that fedavg makes at the call
        check_fit(model, as_clients(clients, "server"), LOCAL)


ADAM = {"optimizer": torch.optim.Adam, "epochs": 1}
VALUES = [
    (partial(Local, 4, lr=0.0, epochs=1), ValueError, "lr=0.0: .* above 0"),
    (partial(Local, 4, lr=nan, epochs=1), ValueError, "lr=nan: .* above 0"),
    (partial(Local, 4, lr=0.1, epochs=2, steps=3), ValueError, "epochs=2 and steps=3: give"),
    (partial(Local, 4, lr=0.1), ValueError, "epochs=None and steps=None: give exactly one"),
    (partial(Local, 4, lr=0.1, epochs=0), ValueError, "epochs=0: must be at least 1"),
    (partial(Local, 4, lr=0.1, steps=0), ValueError, "steps=0: must be at least 1"),
    (partial(Local, 4, lr=0.1, epochs=1, prox=-1.0), ValueError, "prox=-1.0: finite and"),
    (partial(Local, 4, epochs=1), ValueError, "lr=None and optimizer=None: give exactly one"),
    (partial(Local, 4, **ADAM, schedule=partial(StepLR, step_size=1)), TypeError, "as in LambdaLR"),
    (partial(Local, 4, **ADAM, schedule=lambda step: None), TypeError, "gives None for step 0"),
    (partial(Local, 0, lr=0.1, epochs=1), ValueError, "batch_size=0: must be at least 1"),
    (partial(Local, 4, lr=0.1, epochs=1, loss_fn=nn.NLLLoss), TypeError, r"a class: .*NLLLoss\("),
    (partial(Local, 4, lr=0.1, epochs=1, keep_state=True), ValueError, "plain SGD keeps no state"),
    (partial(Local, 4, lr=0.1, steps=1, schedule=abs), ValueError, "no count of its steps"),
    (partial(Local, 4, lr=0.1, steps=1, clip_norm=0), ValueError, "clip_norm=0"),
    (partial(Local, 4, lr=0.1, steps=1, clip_norm=nan), ValueError, "clip_norm=nan"),
    (partial(Arrivals, wait_for=0), ValueError, "wait_for=0: must be at least 1"),
    (partial(Arrivals, timeout=0), ValueError, "timeout=0: give virtual seconds above 0"),
    (partial(Arrivals, staleness=Drop), TypeError, "staleness=.*Drop is a class"),
    (partial(Server, mean=Drop), TypeError, "mean=.*Drop is a class"),
]


@pytest.mark.parametrize(("make", "kind", "message"), VALUES)
def test_values_are_checked_when_they_are_made(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


# ---- The local optimizer ------------------------------------------------------------------------
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


@pytest.mark.later
def test_a_kept_optimizer_is_its_clients_and_is_saved_with_the_run():
    clients = {name: (X + k, Y) for k, name in enumerate("abc")}
    local = Local(4, optimizer=MOMENTUM, epochs=1, keep_state=True)
    whole, half = net(nn.LogSoftmax(dim=1)), net(nn.LogSoftmax(dim=1))
    list(start(clients, whole, local, cohort=2, rounds=6))
    before, after = Fleet(clients), Fleet(clients)
    list(start(before, half, local, cohort=2, rounds=3))
    assert 1 < len(before.optimizers) <= 3
    after.load_state_dict(before.state_dict())
    list(start(after, half, local, cohort=2, rounds=range(3, 6)))
    torch.testing.assert_close(half.state_dict(), whole.state_dict(), rtol=0, atol=0)


class Cropped(Dataset):
    """Items that are moved at random whenever they are read, as an augmentation does."""

    def __init__(self):
        self.read = []

    def __len__(self):
        return len(Y)

    def __getitem__(self, k):
        shift = torch.randint(6, ()).item()
        self.read.append((k, shift))
        return X[k].roll(shift), Y[k].item()


def test_a_torch_dataset_is_learned_from_as_its_tensors_are():
    runs = []
    for data in ((X, Y), TensorDataset(X, Y)):
        model = net(nn.LogSoftmax(dim=1))
        runs.append((list(start({"a": data}, model)), model[0].weight.tolist()))
    assert runs[0] == runs[1]


def test_a_dataset_is_read_anew_in_each_epoch_by_the_seed_of_the_run():
    def run(seed):
        items, state = Cropped(), torch.get_rng_state()
        local = Local(batch_size=4, lr=0.1, epochs=3)
        model = net(nn.LogSoftmax(dim=1))
        list(fedavg(model, {"a": items}, Channel(), rounds=2, cohort=1, local=local, seed=seed))
        assert torch.equal(state, torch.get_rng_state())
        return items.read[-len(Y) * 6 :]  # without those of the checks

    read = run(0)
    assert sorted(k for k, _ in read) == sorted([*range(len(Y))] * 6)
    assert len({shift for k, shift in read if k == 0}) > 1
    assert run(0) == read != run(1)


def test_what_the_items_of_batches_draw_follows_from_the_seed():
    def read(seed):
        items, state = Cropped(), torch.get_rng_state()
        list(Batches(items, batch_size=4, seed=seed).epochs(3))
        assert torch.equal(state, torch.get_rng_state())
        return items.read

    torch.manual_seed(1)
    first = read(0)
    torch.manual_seed(2)
    assert read(0) == first != read(1)
    assert len({shift for k, shift in first if k == 0}) > 1


def test_batches_and_evaluate_take_a_dataset():
    items, tensors = Batches(TensorDataset(X, Y), batch_size=4, seed=0), Batches(X, Y, 4, seed=0)
    torch.testing.assert_close([*items.epochs(2)], [*tensors.epochs(2)], rtol=0, atol=0)
    model = net(nn.LogSoftmax(dim=1))
    assert evaluate(model, TensorDataset(X, Y)) == evaluate(model, X, Y)
    with pytest.raises(TypeError, match=r"Batches\(loader\.dataset, batch_size=32, seed=0\)"):
        Batches(DataLoader(TensorDataset(X, Y), 4), batch_size=4, seed=0)
