"""Models that differ from owner to owner, in part (`fedper`) or as a whole (`ditto`)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from torch import nn

from experiments.replications.drift import learn_corrected, loss_of_all, plain_rounds
from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, check_function, filled, sent_entries, sent_names
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import SERVER, apply_update
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet, plus
from fltoolkit.history import CHECKED, Record, checked_at_call
from fltoolkit.trees import Tree, weighted_mean


@dataclass
class AtHome(RoundMemory):
    """What never leaves its owner: by client, entries of the model or a whole model."""

    weights: dict[str, Tree] = field(default_factory=dict)
    name = "at home"  # of its file


@checked_at_call
def fedper(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int,
    local: Local,
    at_home: Callable[[str], bool],
    memory: AtHome | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """Federated averaging of some entries of the model; the others never leave their owner.

    With the last layers at home it is FedPer (Arivazhagan et al. 2019, arXiv 1912.00818, algorithms
    1 and 2); with those of BatchNorm at home, FedBN (Li et al. 2021, arXiv 2102.07623, algorithm
    1). A round:

    1. the server sends the shared entries to a cohort
    2. each client completes them with its own, and trains all of them
    3. it keeps its own, and sends how far the shared ones have moved
    4. their mean, weighted by sample counts, moves the server's model

    The arguments are those of `fedavg`. ``at_home(name)`` says whether an entry stays; False for
    all of them is `fedavg`. With the model's entries that stay at home every client begins.
    ``memory`` holds what stays at home, for `own_weights`. Records are those of `scaffold`.
    """
    team = Workers(model, as_fleet(clients), local, seed, SERVER)
    cohorts = plain_rounds(team, channel, rounds, cohort)
    check_function("at_home", at_home)
    shared = [name for name in sent_names(model) if not at_home(name)]
    if not shared:
        raise ValueError("at_home keeps all entries, so nothing would be sent: keep fewer at home")
    memory = memory or AtHome()
    yield CHECKED

    totals = channel.begin(set(team.clients), [model], sends_weights=True)
    for round_, drawn in cohorts:
        sent = {name: sent_entries(model)[name] for name in shared}
        starts = {
            k: own_weights(model, memory, k) | channel.send(SERVER, k, "model", sent) for k in drawn
        }
        updates, received = team.learn_all(channel, starts, round_), []
        for k, update in updates.items():
            end = plus(starts[k], update.delta)
            memory.weights[k] = {name: tensor for name, tensor in end.items() if at_home(name)}
            news = {name: update.delta[name] for name in shared}
            received.append(channel.send(k, SERVER, "update", news))
        mean = weighted_mean(received, [u.num_samples for u in updates.values()])
        apply_update(model, mean, None)
        yield {"round": round_, "step": channel.step, **loss_of_all(updates), **totals()}


@checked_at_call
def ditto(
    model: nn.Module,
    clients: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    cohort: int,
    local: Local,
    pull: float,
    memory: AtHome | None = None,
    seed: int = 0,
) -> Iterator[Record]:
    """Ditto (Li et al. 2021, arXiv 2012.04221, algorithm 1): each client also has its own model.

    It is federated averaging, in which each client of a cohort also trains a model v of its own
    that never leaves it: steps on ``loss(v) + pull/2 |v - w|^2``, where w is what the server has
    sent. The first w that a client receives is its first v. The messages are those of `fedavg`, to
    the byte.

    The arguments are those of `fedavg`. ``pull`` is lambda of the paper: with 0 each owner trains
    alone; larger = nearer to the server's. ``memory`` holds the clients' own models. Records are
    those of `scaffold`, with the loss of the shared model.
    """
    team = Workers(model, as_fleet(clients), local, seed, SERVER)
    alone, memory = replace(team, local=replace(local, prox=pull)), memory or AtHome()
    cohorts = plain_rounds(team, channel, rounds, cohort)
    yield CHECKED

    totals = channel.begin(set(team.clients), [model], sends_weights=True)
    for round_, drawn in cohorts:
        starts = {k: channel.send(SERVER, k, "model", sent_entries(model)) for k in drawn}
        updates = team.learn_all(channel, starts, round_)
        received = [channel.send(k, SERVER, "update", u.delta) for k, u in updates.items()]

        own = {k: memory.weights.get(k, starts[k]) for k in drawn}
        pulls = {k: {n: pull * t for n, t in plus(own[k], starts[k], -1).items()} for k in drawn}
        for k, update in learn_corrected(alone, own, pulls, round_).items():
            memory.weights[k] = plus(own[k], update.delta)

        mean = weighted_mean(received, [u.num_samples for u in updates.values()])
        apply_update(model, mean, None)
        yield {"round": round_, "step": channel.step, **loss_of_all(updates), **totals()}


# ------------------------------------------------------------------- what each owner has in the end


def own_weights(model: nn.Module, memory: AtHome, client: str) -> Tree:
    """The whole model of one client: the shared entries, and those that the client keeps.

    >>> import torch
    >>> memory, model = AtHome({"ann": {"bias": torch.ones(1)}}), nn.Linear(1, 1)
    >>> own_weights(model, memory, "ann")["bias"], "weight" in own_weights(model, memory, "ben")
    (tensor([1.]), True)
    """
    whole = sent_entries(model) | memory.weights.get(client, {})
    return {name: tensor.clone() for name, tensor in filled(model, whole).items()}
