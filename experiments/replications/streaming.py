"""Streaming DiLoCo: a fragment of the model at a time is sent while the workers go on computing."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from experiments.replications.gossip import copied
from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, check_count, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import apply_update, check_optimizer
from fltoolkit.federated.workers import Fleet, RoundMemory, Workers, as_fleet, plus
from fltoolkit.history import CHECKED, RoundRecord, checked_at_call, to_come
from fltoolkit.trees import Tree, difference
from fltoolkit_research.federated.exchange import Exchange, ThroughServer, balanced
from fltoolkit_research.federated.local_steps import check_inner_steps, inner_steps, record_of


@dataclass
class Underway(RoundMemory):
    """Each worker's weights, and the means that have not arrived."""

    weights: dict[str, Tree] = field(default_factory=dict)
    waiting: list[Tree] = field(default_factory=list)  # the oldest first
    name = "under way"  # of its file


@checked_at_call
def streaming_diloco(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    outer: torch.optim.Optimizer | None = None,
    fragments: int = 2,
    overlap: int = 1,
    blend: float = 0.5,
    exchange: Exchange = ThroughServer(),
    memory: Underway | None = None,
    seed: int = 0,
) -> Iterator[RoundRecord]:
    """Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512, alg. 2), one record per round.

    The model's entries are divided into ``fragments`` of about equal size. A round:

    1. every worker takes ``local.steps`` steps, from its own weights
    2. one fragment is sent, the next one in each round: how far a worker's weights are from the
       fragment's shared weights. So each fragment is sent once in ``fragments`` rounds
    3. the mean of the fragment that was sent ``overlap`` rounds ago has arrived: its shared weights
       move by it, through the outer optimizer, and each worker mixes them into its own:
       ``blend * own + (1 - blend) * shared``, where ``blend`` is the paper's alpha

    With ``fragments=1, overlap=0, blend=0`` this is `diloco`, which has the other arguments, the
    records and the errors. The paper sends 4-bit floats, ``Pipeline(Float8(3, 0))``.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    rounds = to_come("rounds", rounds)
    check_inner_steps(local)
    check_optimizer("outer", model, outer)
    check_count("fragments", fragments)
    if fragments > (most := len(sent_entries(team.model))):
        raise ValueError(f"fragments={fragments}: the model has {most} entries to divide")
    memory = memory or Underway()
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    parts = balanced(sent_entries(team.model), fragments)
    for worker in team.clients:
        memory.weights.setdefault(worker, copied(sent_entries(team.model)))
    for round_ in rounds:
        channel.step = round_ + 1
        loss, updates = inner_steps(team, channel, memory.weights, round_)
        memory.weights = {w: plus(memory.weights[w], update) for w, update in updates.items()}

        part, shared = parts[round_ % fragments], sent_entries(team.model)
        progress = {
            w: {n: difference(memory.weights[w][n], shared[n]) for n in part} for w in team.clients
        }
        memory.waiting.append(exchange(channel, progress))

        if len(memory.waiting) > overlap:
            mean = memory.waiting.pop(0)
            apply_update(team.model, mean, outer)
            shared = sent_entries(team.model)
            for own in memory.weights.values():
                for n in mean:  # whole numbers are not mixed
                    whole = not shared[n].is_floating_point()
                    own[n] = shared[n] if whole else blend * own[n] + (1 - blend) * shared[n]
        yield record_of(round_, local, loss, totals())
