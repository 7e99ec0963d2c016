"""Local steps that are corrected for owners whose data differ: `scaffold`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import (
    Local,
    LocalUpdate,
    local_update,
    make_optimizer,
    sent_entries,
)
from fltoolkit.federated.rounds import check_cohort, draw_cohort
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import SERVER, apply_update
from fltoolkit.federated.workers import (
    Fleet,
    RoundMemory,
    Workers,
    as_fleet,
    client_seed,
    mean_loss,
    plus,
)
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit.trees import Tree, weighted_mean
from fltoolkit_research.federated.data_parallel import trainable


@dataclass
class Corrections(RoundMemory):
    """The control variates: a tree for each client, and the server's."""

    clients: dict[str, Tree] = field(default_factory=dict)
    server: Tree = field(default_factory=dict)
    name = "corrections"  # of its file


@checked_at_call
def scaffold(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int,
    local: Local,
    server_lr: float = 1.0,
    memory: Corrections | None = None,
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

    The arguments are those of `fedavg`; ``server_lr`` is eta_g of the paper, and ``memory`` holds
    the control variates. Records hold ``round``, ``step``, ``loss`` and the totals of bytes.
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
    memory = memory or Corrections()
    zero = {name: torch.zeros_like(p) for name, p in trainable(model).items()}
    own, c = memory.clients, memory.server or zero
    for round_, drawn in cohorts:
        sent = _joined(sent_entries(model), c)
        arrived = {k: _parted(channel.send(SERVER, k, "model", sent)) for k in drawn}
        starts = {k: weights for k, (weights, _) in arrived.items()}
        old = {k: own.get(k, zero) for k in drawn}
        corrections = {k: plus(control, old[k], -1) for k, (_, control) in arrived.items()}
        updates = learn_corrected(team, starts, corrections, round_)
        received = []
        for k, update in updates.items():
            scale = -1 / (update.num_steps * lr)
            own[k] = {n: scale * update.delta[n] - corrections[k][n] for n in zero}
            message = _joined(update.delta, plus(own[k], old[k], -1))
            received.append(channel.send(k, SERVER, "update", message))
        mean, change = _parted(weighted_mean(received, [1.0] * len(received)))
        moved = {n: server_lr * d if n in zero else d for n, d in mean.items()}  # no buffers
        apply_update(model, moved, None)
        c = memory.server = plus(c, change, len(drawn) / len(team.clients))
        yield {"round": round_, "step": channel.step, **loss_of_all(updates), **totals()}


# ------------------------------------------------------------------------------ corrected steps


def learn_corrected(
    team: Workers, starts: Mapping[str, Tree], corrections: Mapping[str, Tree], round_: int
) -> dict[str, LocalUpdate]:
    """Train these clients, each with a constant of its own added to every gradient."""
    named = {id(p): name for name, p in trainable(team.model).items()}
    order = [named[id(p)] for p in team.model.parameters() if p.requires_grad]

    def corrected(correction: Tree) -> Local:
        def optimizer(params: list[Tensor]) -> torch.optim.Optimizer:
            for param, name in zip(params, order, strict=True):  # each client trains a copy
                constant = correction[name].to(param)
                param.register_post_accumulate_grad_hook(partial(add_to_gradient, constant))
            return make_optimizer(team.local, params, None)

        return replace(team.local, lr=None, optimizer=optimizer)

    updates = {}
    for k, start in starts.items():
        local, seed = corrected(corrections[k]), client_seed(team.seed, round_, k)
        try:
            updates[k] = local_update(team.model, start, *team.clients[k], local, seed=seed)
        except FloatingPointError as error:
            raise FloatingPointError(f"client {k!r}, round {round_}: {error}") from error
    return updates


def add_to_gradient(constant: Tensor, param: Tensor) -> None:
    """Add a constant to a gradient, which may be a sparse one."""
    if param.grad is not None:
        param.grad = constant + param.grad


def plain_rounds(
    team: Workers, channel: Channel, rounds: int | range, cohort: int
) -> Iterator[tuple[int, list[str]]]:
    """The rounds of a method without stragglers: their numbers, and the cohort of each.

    Raises ValueError for a run over several processes, a cohort too large, or kept states.
    """
    to_train = to_come("rounds", rounds)
    check_cohort(cohort, len(team.clients))
    if not team.are_here(channel):
        raise ValueError("this protocol runs in one process, and some clients are in others")
    if team.local.keep_state:
        raise ValueError("keep_state=True: clients of this protocol begin with a new optimizer")

    def drawn() -> Iterator[tuple[int, list[str]]]:
        for round_ in to_train:
            channel.step = round_ + 1
            yield round_, draw_cohort([*team.clients], cohort, team.seed, round_)

    return drawn()


def loss_of_all(updates: Mapping[str, LocalUpdate]) -> Record:
    """The mean local loss, where each client weighs as many samples as it has."""
    return mean_loss([u.loss for u in updates.values()], [u.num_samples for u in updates.values()])


CONTROL = "c/"


def _joined(weights: Tree, control: Tree) -> Tree:
    return weights | {CONTROL + name: tensor for name, tensor in control.items()}


def _parted(tree: Tree) -> tuple[Tree, Tree]:
    """The inverse of `_joined`: the weights, and the control variate."""
    control = {name: t for name, t in tree.items() if name.startswith(CONTROL)}
    weights = {name: t for name, t in tree.items() if name not in control}
    return weights, {name.removeprefix(CONTROL): t for name, t in control.items()}
