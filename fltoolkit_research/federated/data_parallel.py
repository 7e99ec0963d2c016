"""Every-step averaging: all workers compute a gradient, and all take the same step with the mean.

This is data-parallel training as in a data centre, the reference of all methods that send less.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import (
    Local,
    batch_indices,
    loss_of,
    make_optimizer,
    seeded_layers,
    sent_names,
    take_step,
)
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, client_seed
from fltoolkit.history import CHECKED, Record, StepRecord, checked_at_call, to_come
from fltoolkit.party import in_mode
from fltoolkit.trees import Tree
from fltoolkit_research.federated.exchange import Exchange, ThroughServer


@checked_at_call
def ddp(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    steps: int | range,
    local: Local,
    exchange: Exchange = ThroughServer(),
    seed: int = 0,
) -> Iterator[StepRecord]:
    """Average the gradients of all workers at every step; one record per step.

    A step:

    1. every worker computes the gradient of its own batch, at the same weights
    2. the gradients are averaged: ``exchange`` says where the messages go
    3. every worker takes the same step with the mean, so all models stay equal

    With float32 messages and equally large batches, this is one worker whose batch is all of
    theirs. Codecs with `ErrorFeedback` make it PowerSGD (Vogels et al. 2019, arXiv 1905.13727) or
    sign descent (Karimireddy et al. 2019, arXiv 1901.09847).

    Args:
        model: changed in place before each record; without buffers that are saved (BatchNorm's).
        workers: names to data ``(x, y)``; for a run that goes on, a `Fleet`.
        channel: with codecs for the kinds that the exchange sends.
        steps: how many steps; ``range(done, steps)`` for a run that goes on.
        local: with ``steps=1``. Clipping is applied to the mean gradient.
        exchange: `ThroughServer`, `AllGather` or `Ring`. `AllGather` with one worker sends nothing.
        seed: of the batches.

    Records hold ``step``, ``loss`` (mean of the workers that are in this process) and the running
    totals of bytes.

    Raises:
        ValueError, TypeError: an argument is not allowed; raised at the call.
        FloatingPointError: a loss or a gradient is not finite.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    check_one_step(team)
    steps = to_come("steps", steps)
    yield CHECKED

    totals, optimizer = channel.begin(set(team.clients), [model]), shared_optimizer(team)
    for step, loss, grads in gradients_of_each_step(team, channel, steps):
        move_all(team, optimizer, exchange(channel, grads))
        record: Any = {"step": step, **loss, **totals()}
        yield record


def gradients_of_each_step(
    team: Workers, channel: Channel, steps: range
) -> Iterator[tuple[int, Record, dict[str, Tree]]]:
    """Yield of each step its number, the mean loss, and the gradient of each worker."""
    batches, until_end = {}, replace(team.local, steps=steps.stop)
    for worker, (_, y) in team.clients.items():
        all_batches = batch_indices(len(y), until_end, client_seed(team.seed, 0, worker))
        batches[worker] = islice(all_batches, steps.start, None)
    for step in steps:
        channel.step = step + 1
        rows = {worker: next(batch) for worker, batch in batches.items()}
        yield channel.step, *gradients(team, channel, rows, step)


def gradients(
    team: Workers, channel: Channel, rows: Mapping[str, Tensor], step: int
) -> tuple[Record, dict[str, Tree]]:
    """Each worker's gradient of the loss of its batch, and the mean loss of the workers here.

    The gradient of a worker in another process is replaced with zeros, which nobody reads here.
    """
    model, local, params = team.model, team.local, trainable(team.model)
    losses, grads = [], {}
    for worker, (x, y) in team.clients.items():
        if not channel.is_here(worker):
            grads[worker] = {name: torch.zeros_like(p, device="cpu") for name, p in params.items()}
            continue
        device = next(iter(params.values())).device
        with in_mode(True, model), seeded_layers(client_seed(team.seed, step, worker), device):
            output = model(x[rows[worker]].to(device))
            loss = loss_of(local.loss_fn, output, y[rows[worker]].to(device))
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"worker {worker!r}, step {step}: the loss is {loss.item()}. Lower the learning "
                "rate or clip gradients (clip_norm=1.0). All records so far are good"
            )
        each = torch.autograd.grad(
            loss, [*params.values()], allow_unused=True, materialize_grads=True
        )
        grads[worker] = {
            name: (g.to_dense() if g.is_sparse else g).detach()
            for name, g in zip(params, each, strict=True)
        }
        losses.append(loss.item())
    return ({"loss": sum(losses) / len(losses)} if losses else {}), grads


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that learn, each once, by the name under which it is sent."""
    every = dict(model.named_parameters(remove_duplicate=False))
    return {name: every[name] for name in sent_names(model) if name in every}


def shared_optimizer(team: Workers) -> torch.optim.Optimizer:
    """The optimizer that all workers have, with the state that the fleet has kept."""
    kept = next(iter(team.fleet.optimizers.values()), None)
    return make_optimizer(team.local, [*trainable(team.model).values()], kept)


def move_all(team: Workers, optimizer: torch.optim.Optimizer, gradient: Tree) -> None:
    """Let all workers take the same step with this gradient, and keep the optimizer's state."""
    params = trainable(team.model)
    for name, param in params.items():
        param.grad = gradient[name].to(param)
    take_step(optimizer, [*params.values()], team.local)
    optimizer.zero_grad()
    team.fleet.optimizers = dict.fromkeys(team.clients, optimizer.state_dict())


def check_one_step(team: Workers) -> None:
    """Raise ValueError for settings that a protocol which averages gradients cannot have."""
    model, local = team.model, team.local
    if local.steps != 1:
        raise ValueError(
            f"local.steps={local.steps}, local.epochs={local.epochs}: gradients are averaged at "
            "every step. Give Local(steps=1), or use diloco for several steps between messages"
        )
    if local.prox:
        raise ValueError(f"local.prox={local.prox}: a single step does not move from its start")
    if buffers := [name for name in sent_names(model) if name not in trainable(model)]:
        raise ValueError(
            f"the model has buffers {buffers}, which no gradient moves, so they would differ from "
            "worker to worker. Use diloco, which averages them, or LayerNorm, which has none"
        )
