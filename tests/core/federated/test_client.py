"""What a client does alone is what the papers define, and many at once do the same."""

import copy
import math
from functools import partial

import pytest
import torch
from core.federated.small import same
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, nll_loss

from fltoolkit.data import Batches
from fltoolkit.federated import Local, local_update, local_updates
from fltoolkit.federated.client import sent_names
from fltoolkit.federated.many_at_once import stack_of
from fltoolkit.models import mcmahan_2nn, seeded

HOW = {"loss_fn": nll_loss, "lr": 0.1, "batch_size": 4, "epochs": 2}


class Tied(nn.Module):
    """One matrix in two layers, as in language models, and a vector under two names of one."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.last.weight = self.first.weight
        self.scale = self.shift = nn.Parameter(torch.ones(6))

    def forward(self, x):
        h = torch.tanh(self.first(x)) * self.scale + self.shift
        return torch.tanh(self.last(h)).log_softmax(1)


class Odd(nn.Module):
    """What some networks do: put new tensors into buffers, leave weights unused or frozen."""

    def __init__(self):
        super().__init__()
        self.body, self.unused, self.frozen = nn.Linear(6, 6), nn.Linear(2, 2), nn.Linear(6, 3)
        self.frozen.requires_grad_(False)
        self.register_buffer("seen", torch.zeros(6))
        self.register_buffer("scratch", torch.ones(6), persistent=False)

    def forward(self, x):
        h = self.body(x)
        self.seen = 0.9 * self.seen + h.detach().sum(0)
        self.scratch.mul_(0.5)
        return self.frozen(torch.tanh(h + self.scratch)).log_softmax(1)


class Shared(nn.Module):
    """One block used twice: its parameters and buffers are saved under two names each."""

    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))
        self.first, self.last = block, block

    def forward(self, x):
        return self.last(torch.tanh(self.first(x))).log_softmax(1)


def linear(*extra):
    return nn.Sequential(nn.Linear(6, 8), *extra, nn.Linear(8, 3), nn.LogSoftmax(dim=1))


NETS = {
    "stack": lambda *between: linear(nn.ReLU(), *between),  # many clients learn it at once
    "MLP": lambda: linear(nn.Tanh()),
    "BatchNorm": lambda: linear(nn.BatchNorm1d(8), nn.ReLU()),
    "Dropout": lambda: linear(nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.2)),
    "tied": Tied,
    "odd": Odd,
    "shared": Shared,
}
WAYS = {
    "epochs": {"epochs": 2, "steps": None},
    "fewer steps than an epoch": {"epochs": None, "steps": 2},
    "steps into the third epoch": {"epochs": None, "steps": 9},
    "FedSGD": {"epochs": None, "steps": 1, "batch_size": None},
    "batch above the data": {"batch_size": 100},
}


def net(name, dtype=torch.float32, seed=0):
    with seeded(seed):
        return NETS[name]().to(dtype)


def start_of(module, seed=1):
    """Another state of the same network: what a server might send."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: tensor + 0.1 * torch.rand(tensor.shape, generator=generator).to(tensor)
        if tensor.is_floating_point()
        else tensor + 3
        for name, tensor in module.state_dict().items()
    }


def samples(n, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator, dtype=torch.float64).to(dtype)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()


def one_of_two(module, start, x, y, local, *, seed):
    """The first of two clients that learn at once."""
    return local_updates(module, [start] * 2, [(x, y)] * 2, local, seeds=[seed, 1], chunk=2)[0]


def assert_equal(update, reference, tolerance=0.0):
    assert update.num_steps == reference.num_steps
    assert update.num_samples == reference.num_samples
    assert update.delta.keys() == reference.delta.keys()
    for name, expected in reference.delta.items():
        actual = update.delta[name]
        assert actual.dtype == expected.dtype, name
        worst = (actual - expected).abs().max().item()
        assert worst <= tolerance, f"{name} differs by {worst}"
    assert abs(update.loss - reference.loss) <= tolerance, "the losses differ"


# ------------------------------------------------------------------ one client is ordinary training
@pytest.mark.parametrize("prox", [0.0, 0.7])
@pytest.mark.parametrize("name", sorted(set(NETS) - {"Dropout"}))
def test_one_client_is_ordinary_training_over_batches(name, prox):
    """To the bit; with ``prox`` up to rounding, because autograd differentiates it here."""
    module, (x, y) = net(name, torch.float64), samples(22, torch.float64)
    start, losses = start_of(module), []
    model = net(name, torch.float64)
    model.load_state_dict(start)
    params = [p for p in model.parameters() if p.requires_grad]
    before, optimizer = [p.detach().clone() for p in params], torch.optim.SGD(params, lr=0.1)
    for batch_x, batch_y in Batches(x, y, 4, seed=5).epochs(2):
        optimizer.zero_grad()
        loss = nll_loss(model(batch_x), batch_y)
        losses.append(loss.item())
        far = sum((p - w0).square().sum() for p, w0 in zip(params, before, strict=True))
        (loss + prox / 2 * far if prox else loss).backward()
        optimizer.step()
    update = local_update(module, start, x, y, Local(**HOW, prox=prox), seed=5)
    assert [*update.delta] == sent_names(module)
    for entry in sent_names(module):
        expected = model.state_dict()[entry] - start[entry]
        assert (update.delta[entry] - expected).abs().max() <= (1e-14 if prox else 0), entry
    assert update.loss == pytest.approx(sum(losses) / len(losses), abs=1e-14 if prox else 0)
    assert (update.num_samples, update.num_steps) == (22, 12)


# ------------------------------------------------------------------ at once = one after the other
SIZES = [9, 30, 2, 9, 17, 4, 12, 21, 1]


def compared(module, data, local, chunk, tolerance):
    """Clients with starts and seeds of their own, as many at a time, and each alone."""
    starts = [start_of(module, seed=k) for k in range(len(data))]
    kept, seeds = copy.deepcopy(starts), [7 * k for k in range(len(data))]
    updates = local_updates(module, starts, data, local, seeds=seeds, chunk=chunk)
    for k, (x, y) in enumerate(data):
        assert_equal(
            updates[k], local_update(module, kept[k], x, y, local, seed=seeds[k]), tolerance
        )
    assert same(starts, kept)


@pytest.mark.parametrize("chunk", [1, 3, None])
@pytest.mark.parametrize("way", WAYS)
def test_clients_at_once_equal_the_loop(way, chunk):
    """Clients of unlike sizes; in float64, where only the order of sums may differ."""
    module, data = net("stack", torch.float64), [samples(n, torch.float64, n) for n in SIZES]
    assert stack_of(module, data)
    compared(module, data, Local(**HOW | WAYS[way]), chunk, 1e-14)


ROW = partial(nn.Sequential)
CROSS, SQUARE = HOW | {"loss_fn": cross_entropy}, HOW | {"loss_fn": mse_loss, "batch_size": None}


@pytest.mark.parametrize(
    ("module", "shape", "how"),
    [
        (mcmahan_2nn(seed=0), (784,), HOW),
        (ROW(nn.Linear(6, 3)), (6,), CROSS),
        (ROW(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), (2, 1, 3), CROSS),
        (ROW(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1)), (6,), SQUARE),
    ],
    ids=["2NN", "one layer", "flatten", "regression"],
)
def test_stacks_of_all_kinds_equal_the_loop(module, shape, how):
    """In float32, up to a rounding; with torch's usual kernels for processors to the bit."""
    data = []
    for n in (18, 7, 18):
        x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(n))
        rows = x.flatten(1)
        data.append((x, rows[:, :1] if how is SQUARE else rows[:, :3].argmax(1)))
    assert stack_of(module, data)
    compared(module, data, Local(**how), None, 1e-6)


def test_a_loss_that_is_no_mean_over_samples():
    """It is computed for each client on its own, so nothing is assumed about it."""
    module = net("stack", torch.float64)
    loss_fn = nn.NLLLoss(weight=torch.tensor([1.0, 5.0, 0.2], dtype=torch.float64))
    how = HOW | {"loss_fn": lambda output, y: loss_fn(output, y) + output.square().sum().sqrt()}
    compared(module, [samples(n, torch.float64, n) for n in SIZES], Local(**how), None, 1e-13)


@pytest.mark.parametrize("name", NETS)
def test_other_networks_learn_in_turn(name):
    module, data = net(name), [samples(n, seed=n) for n in (10, 14)]
    assert (stack_of(module, data) is None) == (name != "stack")
    local = Local(4, optimizer=partial(torch.optim.Adam, lr=0.1), steps=3) if name == "stack" else 0
    compared(module, data, local or Local(4, lr=0.1, steps=3), None, 0.0)


class Own(nn.Linear):
    pass


def changed(change):
    module = ROW(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    change(module)
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(6, 3),
        ROW(),
        ROW(nn.ReLU(), nn.Linear(6, 3)),
        ROW(nn.Linear(6, 3), nn.ReLU()),
        ROW(nn.Linear(6, 3), nn.Linear(3, 3)),
        ROW(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 3)),
        ROW(nn.Linear(6, 3), nn.ReLU(), nn.Dropout(), nn.Linear(3, 3)),
        ROW(nn.Linear(6, 3, bias=False)),
        ROW(nn.Linear(6, 3, bias=False), nn.ReLU(), Own(3, 3)),
        ROW(Own(6, 3)),
        ROW(nn.LogSoftmax(dim=1)),
        ROW(nn.Linear(6, 3), nn.LogSoftmax(dim=0)),
        ROW(nn.Flatten(2), nn.Linear(6, 3)),
        ROW(*[nn.Linear(6, 6), nn.ReLU()] * 2, nn.Linear(6, 3)),
        changed(lambda module: setattr(module[2], "weight", module[0].weight)),
        changed(lambda module: module[0].weight.requires_grad_(False)),
        changed(lambda module: module[0].weight.register_hook(lambda gradient: 2 * gradient)),
        changed(lambda module: module[2].register_forward_hook(lambda *_: None)),
        changed(lambda module: module[2].double()),
    ],
    ids=str,
)
def test_all_else_is_no_stack(module):
    assert stack_of(module, [samples(5)]) is None


def test_samples_of_another_kind_are_for_the_loop():
    """It raises the errors, or knows what to do."""
    module, (x, y) = net("stack"), samples(5)
    for other in (x.double(), x.view(5, 1, 6), x[:, :4]):
        assert stack_of(module, [(x, y), (other, y)]) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert stack_of(module, [(x, y)]) is None
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        one_of_two(module, start_of(module), x[:, :4], y, Local(**HOW), seed=0)


# ------------------------------------------------------------------------- nothing else is touched
def snapshot(module):
    return (
        {name: tensor.clone() for name, tensor in module.state_dict().items()},
        [buffer.clone() for buffer in module.buffers()],
        [(id(tensor), tensor.data_ptr()) for tensor in (*module.parameters(), *module.buffers())],
        [part.training for part in module.modules()],
        [param.grad if param.grad is None else param.grad.clone() for param in module.parameters()],
        [param.requires_grad for param in module.parameters()],
        torch.get_rng_state(),
    )


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("fails", [False, True])
def test_the_module_is_a_workbench_and_left_as_found(name, fails):
    module, (x, y) = net(name), samples(22)
    train = one_of_two if name == "stack" else local_update
    for part in list(module.modules())[1::2]:
        part.eval()  # some parts in one mode, some in the other
    for param in module.parameters():
        param.grad = torch.ones_like(param)
    start, before = start_of(module), snapshot(module)
    kept = copy.deepcopy(start)
    if fails:
        with pytest.raises(ZeroDivisionError):
            train(module, start, x, y, Local(**HOW | {"loss_fn": lambda output, y: 1 / 0}), seed=0)
    else:
        train(module, start, x, y, Local(**HOW), seed=0)
    assert same(snapshot(module), before)
    assert same(start, kept)
    module.train()
    assert not same(snapshot(module), before)


@pytest.mark.parametrize("name", ["stack", "BatchNorm"])
def test_the_modules_own_weights_and_mode_do_not_matter(name):
    x, y = samples(22)
    start = start_of(net(name))
    update = one_of_two(net(name, seed=0), start, x, y, Local(**HOW), seed=0)
    other = one_of_two(net(name, seed=1).eval(), start, x, y, Local(**HOW), seed=0)
    assert_equal(other, update)


def test_the_seed_decides_batches_and_masks_and_nothing_else_does():
    module, (x, y) = net("Dropout"), samples(22)
    first = local_update(module, start_of(module), x, y, Local(**HOW), seed=2)
    torch.rand(100)
    local_update(module, start_of(module), x, y, Local(**HOW), seed=3)  # another client in between
    assert_equal(local_update(module, start_of(module), x, y, Local(**HOW), seed=2), first)
    local = Local(**HOW | {"batch_size": None})
    a, b = (local_update(module, start_of(module), x, y, local, seed=s) for s in (2, 3))
    assert abs(a.loss - b.loss) > 1e-3  # the same samples, other masks


# ------------------------------------------------------------------------------- what goes wrong
def test_a_last_step_into_infinity_is_an_error():
    """The loss before the only step is finite, its gradient at 0 is not."""
    module, start = nn.Linear(1, 1, bias=False), {"weight": torch.zeros(1, 1)}
    how = {"loss_fn": lambda output, y: output.abs().sqrt().mean(), "lr": 0.1, "batch_size": 2}
    x = torch.ones(2, 1)
    with pytest.raises(FloatingPointError, match="the step after it led to NaN"):
        local_update(module, start, x, x, Local(**how, steps=1), seed=0)


@pytest.mark.parametrize("chunk", [1, 3])
def test_one_clients_nan_is_its_own(chunk):
    module, data = net("stack"), [samples(n, seed=n) for n in (9, 14, 11)]
    start = start_of(module)
    good = local_updates(module, [start] * 3, data, Local(**HOW), seeds=[1, 2, 3], chunk=chunk)
    data[1][0][0, 0] = math.inf
    found = local_updates(module, [start] * 3, data, Local(**HOW), seeds=[1, 2, 3], chunk=chunk)
    assert isinstance(found[1], FloatingPointError)
    for k in (0, 2):
        assert_equal(found[k], good[k])


@pytest.mark.parametrize("train", [local_update, one_of_two])
def test_what_does_not_fit_is_refused(train):
    module, (x, y) = net("stack"), samples(5)
    start = start_of(module)
    for wrong in (
        start | {"3.weight": torch.zeros(1)},
        start | {"0.bias": torch.zeros(3)},
        {name: tensor for name, tensor in start.items() if name != "0.bias"},
    ):
        with pytest.raises(ValueError, match=r"start does not fit .*(3.weight|0.bias)"):
            train(module, wrong, x, y, Local(**HOW), seed=0)
    with pytest.raises(ValueError, match="0 samples and 0 labels"):
        train(module, start, x[:0], y[:0], Local(**HOW), seed=0)
    with pytest.raises(ValueError, match="seed=-1: must be at least 0"):
        train(module, start, x, y, Local(**HOW), seed=-1)
    with pytest.raises(ValueError, match="no parameter that learns"):
        train(module.requires_grad_(False), start, x, y, Local(**HOW), seed=0)
    one, square = ROW(nn.Linear(6, 1)), Local(None, lr=0.1, epochs=1, loss_fn=mse_loss)
    with pytest.raises(ValueError, match=r"outputs \[5, 1\] and targets \[5\] would be broadcast"):
        train(one, one.state_dict(), x, y.float(), square, seed=0)


def test_lists_must_agree():
    module, start = net("MLP"), start_of(net("MLP"))
    with pytest.raises(ValueError, match="argument 2 is longer"):
        local_updates(module, [start], [samples(3)] * 2, Local(**HOW), seeds=[0, 1])
    with pytest.raises(ValueError, match="chunk=0"):
        local_updates(module, [start], [samples(3)], Local(**HOW), seeds=[0], chunk=0)
    assert local_updates(module, [], [], Local(**HOW), seeds=[]) == []


# ---------------------------------------------------------- schedules, clipping, what is sent
def test_a_schedule_counts_steps_over_rounds_and_survives_saving():
    """Against torch's own LambdaLR over one long round."""
    module, (x, y) = net("MLP"), samples(12)

    def schedule(step):
        return 1 / (1 + step)

    local = Local(
        batch_size=None,
        steps=3,
        optimizer=lambda params: torch.optim.SGD(params, lr=0.5, momentum=0.9),
        schedule=schedule,
        keep_state=True,
    )
    start, state = start_of(module), None
    for _ in range(2):
        update = local_update(module, start, x, y, local, seed=0, state=state)
        start = {name: start[name] + update.delta[name] for name in start}
        state = copy.deepcopy(update.state)
    model = net("MLP")
    model.load_state_dict(start_of(module))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    for _ in range(6):
        optimizer.zero_grad()
        nll_loss(model(x), y).backward()
        optimizer.step()
        rates.step()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(start[name], tensor, atol=1e-6), name


@pytest.mark.parametrize("train", [local_update, one_of_two])
def test_clipping_makes_a_step_as_long_as_said(train):
    module, (x, y) = net("stack"), samples(12)
    how = {"batch_size": None, "lr": 0.5, "steps": 1}
    long = train(module, start_of(module), x, y, Local(**how), seed=0)
    short = train(module, start_of(module), x, y, Local(**how, clip_norm=1e-3), seed=0)
    lengths = [
        torch.cat([d.flatten() for d in update.delta.values()]).norm() for update in (long, short)
    ]
    assert lengths[0] > 0.01
    assert lengths[1] == pytest.approx(0.5e-3, rel=1e-3)


def test_a_schedule_that_turns_negative_is_refused():
    module, (x, y) = net("MLP"), samples(12)
    sgd = partial(torch.optim.SGD, lr=0.1)
    later = Local(4, optimizer=sgd, steps=3, schedule=lambda step: 1.0 - step)
    with pytest.raises(ValueError, match=r"schedule\(2\)=-1"):
        local_update(module, start_of(module), x, y, later, seed=0)
