"""Local steps that are corrected for owners whose data differ: `scaffold` and `feddyn`.

Not here: models that differ from owner to owner (personal.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import (
    Local,
    LocalUpdate,
    local_update,
    make_optimizer,
    outcome_of,
    sent_entries,
)
from fltoolkit.federated.rounds import Cohort
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import SERVER, apply_update
from fltoolkit.federated.workers import Fleet, Workers, as_fleet, mean_loss, plus
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, weighted_mean
from fltoolkit_research.federated.data_parallel import trainable


@checked_at_call
def scaffold(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int | Cohort,
    local: Local,
    server_lr: float = 1.0,
    seed: int = 0,
) -> Iterator[Record]:
    """SCAFFOLD (Karimireddy et al. 2020, arXiv 1910.06378, algorithm 1); one record per round.

    Each client k has a control variate c_k, about its own gradient, and the server has c, about
    their mean. A round:

    1. the server sends its model x and c to a cohort
    2. each client takes K steps ``y <- y - lr (gradient - c_k + c)``, beginning at x
    3. its new control variate is ``c_k - c + (x - y) / (K lr)`` (option II)
    4. it sends ``y - x`` and by how much c_k has changed
    5. the server moves x by ``server_lr`` times the mean, and c by the mean times the share of all
       clients that took part

    So both messages are twice as long as in `fedavg`. As in the paper every client weighs the same,
    and steps are plain SGD. All control variates begin at zero, so the first round is that of
    federated averaging.

    Args:
        model, channel, rounds, cohort, seed: as in `fedavg`.
        clients: names to data; for a run that goes on, a `Fleet`, which keeps the control variates
            by client, and the server's under "server", as ``momenta``.
        local: with ``lr``; ``prox`` and ``optimizer`` are not part of the method.
        server_lr: eta_g of the paper.

    Records hold ``round``, ``step``, ``loss`` and the running totals of bytes.

    >>> x, local = torch.ones(2, 1), Local(2, lr=0.1, steps=4, loss_fn=nn.functional.mse_loss)
    >>> owners = {"ann": (x, 0 * x), "ben": (x, 4 * x)}
    >>> model, fleet = nn.Linear(1, 1, bias=False), Fleet(owners)
    >>> for record in scaffold(model, fleet, Channel(), rounds=20, cohort=2, local=local):
    ...     pass
    >>> round(model.weight.item(), 3)  # the best for both
    2.0
    >>> [round(fleet.momenta[owner]["weight"].item(), 2) for owner in owners]
    [4.0, -4.0]
    """
    team = Workers(model, as_fleet(clients), local, seed, SERVER)
    cohorts = plain_rounds(team, channel, rounds, cohort)
    if local.lr is None or local.prox or local.clip_norm:
        raise ValueError(
            f"lr={local.lr}, prox={local.prox}, clip_norm={local.clip_norm}: a control variate is "
            "made from steps of plain SGD. Give Local(batch_size, lr=..., steps=...)"
        )
    yield CHECKED

    totals, lr = channel.begin(set(team.clients), [model], sends_weights=True), local.lr
    zero, own = _zeros(model), team.fleet.momenta
    c = own.setdefault(SERVER, zero)
    for round_, drawn in cohorts:
        sent = _joined(sent_entries(model), c)
        arrived = {k: _parted(channel.send(SERVER, k, "model", sent)) for k in drawn}
        starts = {k: weights for k, (weights, _) in arrived.items()}
        old = {k: own.get(k, zero) for k in drawn}
        corrections = {k: plus(control, old[k], -1) for k, (_, control) in arrived.items()}
        updates = learn_corrected(team, channel, starts, corrections, round_)
        received = []
        for k, update in updates.items():
            scale = -1 / (update.num_steps * lr)
            own[k] = {n: scale * update.delta[n] - corrections[k][n] for n in zero}
            message = _joined(update.delta, plus(own[k], old[k], -1))
            received.append(channel.send(k, SERVER, "update", message))
        mean, change = _parted(weighted_mean(received, [1.0] * len(received)))
        apply_update(model, {n: server_lr * d for n, d in mean.items()}, None)
        c = own[SERVER] = plus(c, change, len(drawn) / len(team.clients))
        yield {"round": round_, "step": channel.step, **loss_of_all(updates), **totals()}


@checked_at_call
def feddyn(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int | Cohort,
    local: Local,
    alpha: float,
    seed: int = 0,
) -> Iterator[Record]:
    """FedDyn (Acar et al. 2021, arXiv 2111.04263, algorithm 1); one record per round.

    Each client k remembers g_k, the gradient of its loss where its last round ended. A round:

    1. the server sends its model x to a cohort
    2. each client makes ``loss(w) - <g_k, w> + alpha/2 |w - x|^2`` small, beginning at x
    3. it ends at w_k, subtracts ``alpha (w_k - x)`` from g_k, and sends ``w_k - x``
    4. the server subtracts ``alpha / m`` times the sum of these from its h, where m is the number
       of all clients, and moves x by their mean minus ``h / alpha``

    The messages are those of `fedavg`, to the byte. As in the paper every client weighs the same.

    Args:
        model, channel, rounds, cohort, seed: as in `fedavg`.
        clients: names to data; for a run that goes on, a `Fleet`, which keeps g_k by client, and h
            under "server", as ``momenta``.
        local: ``prox`` must be 0, since alpha takes its place.
        alpha: larger = shorter ways from the server's model.

    Records hold ``round``, ``step``, ``loss`` and the running totals of bytes.

    >>> x, local = torch.ones(2, 1), Local(2, lr=0.1, steps=9, loss_fn=nn.functional.mse_loss)
    >>> owners = {"ann": (x, 0 * x), "ben": (x, 4 * x)}
    >>> model = nn.Linear(1, 1, bias=False)
    >>> for record in feddyn(model, owners, Channel(), rounds=30, cohort=2, local=local, alpha=1.0):
    ...     pass
    >>> round(model.weight.item(), 3)
    2.0
    """
    if not alpha > 0 or local.prox:
        raise ValueError(f"alpha={alpha}, prox={local.prox}: give alpha above 0, and no prox")
    team = Workers(model, as_fleet(clients), replace(local, prox=alpha), seed, SERVER)
    cohorts = plain_rounds(team, channel, rounds, cohort)
    yield CHECKED

    totals = channel.begin(set(team.clients), [model], sends_weights=True)
    zero, own = _zeros(model), team.fleet.momenta
    for round_, drawn in cohorts:
        starts = {k: channel.send(SERVER, k, "model", sent_entries(model)) for k in drawn}
        old = {k: own.get(k, zero) for k in drawn}
        corrections = {k: {n: -t for n, t in old[k].items()} for k in drawn}
        updates = learn_corrected(team, channel, starts, corrections, round_)
        for k, update in updates.items():
            own[k] = plus(old[k], update.delta, -alpha)
        received = [channel.send(k, SERVER, "update", u.delta) for k, u in updates.items()]
        mean, share = weighted_mean(received, [1.0] * len(received)), len(drawn) / len(team.clients)
        h = own[SERVER] = plus(own.get(SERVER, zero), mean, -alpha * share)
        apply_update(model, {**mean, **plus(mean, h, -1 / alpha)}, None)
        yield {"round": round_, "step": channel.step, **loss_of_all(updates), **totals()}


# ------------------------------------------------------------------------------ corrected steps


def corrected(local: Local, correction: list[Tensor]) -> Local:
    """The same local training, with a constant added to the gradient at each step."""

    def optimizer(params: list[Tensor]) -> torch.optim.Optimizer:
        made = make_optimizer(local, params, None)
        if len(params) == len(correction):  # `Local` tries each optimizer on one number

            def add(*_: Any) -> None:
                for param, c in zip(params, correction, strict=True):
                    param.grad = c.to(param) if param.grad is None else param.grad + c.to(param)

            made.register_step_pre_hook(add)
        return made

    return replace(local, lr=None, optimizer=optimizer)


def learn_corrected(
    team: Workers,
    channel: Channel,
    starts: Mapping[str, Tree],
    corrections: Mapping[str, Tree],
    round_: int,
) -> dict[str, LocalUpdate]:
    """Train the clients of ``starts``, each with its own correction of the gradient."""
    named = {id(p): name for name, p in trainable(team.model).items()}
    order = [named[id(p)] for p in team.model.parameters() if p.requires_grad]

    def train(module: nn.Module, given: Any, data: Any, local: Local, *, seeds: Any) -> list[Any]:
        each = zip(given, data, seeds, corrections.values(), strict=True)
        return [
            outcome_of(
                local_update, module, start, x, y, corrected(local, [c[n] for n in order]), seed=s
            )
            for start, (x, y), s, c in each
        ]

    trained = replace(team, fleet=replace(team.fleet, train=train))
    return trained.learn_all(channel, starts, round_, {})


def plain_rounds(
    team: Workers, channel: Channel, rounds: int | range, cohort: int | Cohort
) -> Iterator[tuple[int, list[str]]]:
    """The rounds of a method without stragglers: their numbers, and the cohort of each.

    Raises ValueError for a run over several processes, a cohort too large, or kept states.
    """
    cohort = cohort if isinstance(cohort, Cohort) else Cohort(cohort)
    to_train = to_come("rounds", rounds)
    if not team.are_here(channel):
        raise ValueError("this protocol runs in one process, and some clients are in others")
    if cohort.with_replacement or cohort.size > len(team.clients) or team.local.keep_state:
        raise ValueError(
            f"cohort={cohort}, keep_state={team.local.keep_state}: give 1 to {len(team.clients)} "
            "clients without replacement, and leave keep_state False"
        )

    def drawn() -> Iterator[tuple[int, list[str]]]:
        for round_ in to_train:
            channel.step = round_ + 1
            yield round_, [*cohort.draw([*team.clients], team.seed, round_)]

    return drawn()


def loss_of_all(updates: Mapping[str, LocalUpdate]) -> Record:
    """The mean local loss, where each client weighs as many samples as it has."""
    return mean_loss([u.loss for u in updates.values()], [u.num_samples for u in updates.values()])


def _zeros(model: nn.Module) -> Tree:
    return {name: torch.zeros_like(p) for name, p in trainable(model).items()}


CONTROL = "c/"


def _joined(weights: Tree, control: Tree) -> Tree:
    return weights | {CONTROL + name: tensor for name, tensor in control.items()}


def _parted(tree: Tree) -> tuple[Tree, Tree]:
    """The inverse of `_joined`: the weights, and the control variate."""
    control = {name: t for name, t in tree.items() if name.startswith(CONTROL)}
    weights = {name: t for name, t in tree.items() if name not in control}
    return weights, {name.removeprefix(CONTROL): t for name, t in control.items()}
