"""DES-LOC: local steps whose optimizers' moments are averaged, too, but less often.

docs/language_results.md measures it: it sends 1.5 times the bytes of the same training without sent
moments, and ends 0.006 nats below that.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.federated.client import Local, sent_entries
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import apply_update
from fltoolkit.federated.workers import Fleet, Workers, as_fleet
from fltoolkit.history import CHECKED, Record, checked_at_call, to_come
from fltoolkit_research.federated.exchange import Exchange, ThroughServer
from fltoolkit_research.federated.local_steps import check_inner_steps, inner_steps, record_of


@checked_at_call
def des_loc(
    model: nn.Module,
    workers: Clients | Fleet,
    channel: Channel,
    *,
    rounds: int | range,
    local: Local,
    moments: Mapping[str, int],
    exchange: Exchange = ThroughServer(),
    seed: int = 0,
) -> Iterator[Record]:
    """DES-LOC (Iacob et al. 2025, arXiv 2505.22549): moments are averaged, too, but less often.

    A round is that of `diloco` without an outer optimizer. After it, the workers also average those
    entries of their optimizers' states whose period has come. With a period of 1 for all moments
    this is Local Adam, which sends three times the bytes of the weights alone; with
    ``{"exp_avg": 3, "exp_avg_sq": 6}`` it is 1.5 times as much.

    ``local`` has ``keep_state=True``; ``moments`` says which entries are averaged, and every how
    many rounds. The other arguments, the records and the errors are those of `diloco`.
    """
    team = Workers(model, as_fleet(workers), local, seed)
    rounds = to_come("rounds", rounds)
    check_inner_steps(local)
    if not local.keep_state:
        raise ValueError("des_loc averages what optimizers keep: give Local(keep_state=True)")
    yield CHECKED

    totals = channel.begin(set(team.clients), [model])
    for round_ in rounds:
        channel.step = round_ + 1
        starts = dict.fromkeys(team.clients, sent_entries(model))
        loss, updates = inner_steps(team, channel, starts, round_)
        apply_update(model, exchange(channel, updates), None)
        for entry, period in moments.items():
            if (round_ + 1) % period == 0:
                _average_moments(entry, team, channel, exchange)
        yield record_of(round_, local, loss, totals())


def _average_moments(entry: str, team: Workers, channel: Channel, exchange: Exchange) -> None:
    """Every worker's optimizer goes on with the mean of this entry of all states."""
    states = {worker: kept["state"] for worker, kept in team.fleet.optimizers.items()}
    own = {w: {f"{k}.{entry}": kept[entry] for k, kept in s.items()} for w, s in states.items()}
    like = {n: torch.zeros_like(t) for n, t in next(iter(own.values()), {}).items()}
    mean = exchange(channel, {worker: own.get(worker, like) for worker in team.clients})
    for state in states.values():
        for number, kept in state.items():
            kept[entry] = mean[f"{number}.{entry}"].to(kept[entry])
