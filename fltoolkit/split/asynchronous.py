"""Asynchronous split learning: the client may stop sending for some time, which saves bytes.

Here: one step in each of the states A, B and C, and training one client or several by a gate. Not
here: when to be in which state (gates.py), the label party's memory (cache.py). Notebook 03 derives
it.

Source: Chen, Li & Chakrabarti 2021, arXiv 2107.09786. The paper's full text was not available to
us. The states follow its abstract and two public implementations. Here, other than in these, the
client really sends nothing in state C. The label party sends her one small message in a period,
which announces the state.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from fltoolkit.channel import Channel
from fltoolkit.history import CHECKED, AsyncRecord, AsyncTurnRecord, checked_at_call, to_come
from fltoolkit.links import Link
from fltoolkit.party import Party
from fltoolkit.shapes import Int64
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.clients import Counted, check_clients
from fltoolkit.split.gates import Gate, Progress, State, ask, check_gate
from fltoolkit.split.uploads import CutMemory, Upload, memories_of, place, send_up

__all__ = ["Bookmark", "train_async", "train_async_relay"]


@runtime_checkable
class KeyedData(Counted, Protocol):
    """What a client trains on, with an id for each sample; `fltoolkit.data.Batches` fits."""

    def rows(self, number: int) -> Iterator[Tensor]: ...
    def at(self, rows: Tensor) -> tuple[Any, Tensor]: ...


class CachedClient(NamedTuple):
    """A client, her samples, and what is remembered of the activations that she has sent."""

    party: Party
    data: KeyedData
    memory: CutMemory


class Bookmark:
    """The state of a run of `train_async` or `train_async_relay`, so that it can go on later.

    Give a bookmark to the training, and to `save_run` as if it were a party: ``save_run("runs/a",
    [alice, bob, bookmark], channel)``. To go on, give a new bookmark to `load_run`, and then to the
    same training, built as for a new run. A bookmark saves the gate, the caches, and how far the
    run has come, also within an epoch. A training that gets a used bookmark continues its run.

    Args:
        cache: the label party's cache, to look at it later; by default a new one.

    >>> sorted(Bookmark().state_dict())
    ['holder', 'losses', 'num_steps', 'parts', 'version', 'version_of']
    """

    name = "asynchronous states"  # of the file in which it is saved

    def __init__(self, cache: ActivationCache | None = None) -> None:
        self.cache = cache
        self.num_steps = 0  # done so far
        self.version = 0  # how often a bottom has learned
        self.holder = ""  # the client with the newest bottom
        self.version_of: dict[str, int] = {}  # of each client's bottom
        self.losses: list[float] = []  # since the gate was asked last
        self._parts: list[Gate | ActivationCache] = []  # gate, cache, mirrors
        self._saved: list[Mapping[str, Any]] = []

    def begin(self, names: Sequence[str], parts: list[Gate | ActivationCache]) -> None:
        """Begin a run of these clients, or go on with the one whose state this bookmark has.

        The parts are the gate, the cache and the clients' copies of it. They get the state of those
        of the earlier run, if there is one, and are saved with the bookmark from now on.
        """
        # of a run that was loaded, or of one in this process; empty if this is the first
        saved = self._saved or [part.state_dict() for part in self._parts]
        if not self.version_of:
            self.version_of, self.holder = dict.fromkeys(names, 0), names[0]
        if sorted(self.version_of) != sorted(names) or len(saved) not in (0, len(parts)):
            raise ValueError(
                f"the bookmark is of a run with the clients {[*self.version_of]}, this one has "
                f"{[*names]}; clients and upload must be the same, or make a fresh Bookmark"
            )
        for part, state in zip(parts, saved, strict=False):
            part.load_state_dict(state)
        self._parts, self._saved = parts, []

    def note(self, client: str, state: State, loss: float) -> None:
        """Count a step of this client; in state A her bottom has learned and is the newest."""
        self.num_steps += 1
        self.losses.append(loss)
        if state is State.A:
            self.version += 1
            self.holder, self.version_of[client] = client, self.version

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors, so that it can be saved without pickle."""
        return {
            "num_steps": self.num_steps,
            "version": self.version,
            "holder": self.holder,
            "version_of": dict(self.version_of),
            "losses": list(self.losses),
            "parts": self._saved or [part.state_dict() for part in self._parts],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved `state_dict`, in the training that this is handed to next."""
        self.num_steps, self.version = state["num_steps"], state["version"]
        self.holder, self.version_of = state["holder"], dict(state["version_of"])
        self.losses = list(state["losses"])
        self._parts, self._saved = [], list(state["parts"])


def async_step(
    client: CachedClient,
    bob: Party,
    ids: Int64[Tensor, " batch"],
    channel: Channel,
    state: State,
    *,
    labels_from: str | None = None,
) -> tuple[float, float]:
    """One step on the samples ``ids`` in the given state.

    Returns the batch's loss, and the share of the batch whose activations are stale: made by an
    earlier version of the bottom.

    | state | activations up | gradients down | client forward | client backward | label party |
    |---|---|---|---|---|---|
    | A | yes | yes | yes | yes | learns from fresh activations, caches them |
    | B | yes | no | yes | no | learns from fresh activations, caches them |
    | C | no | no | no | no | learns from its cache |

    In state A with everything sent, the step is bit-equal to `split_step`. If samples are missing
    in the cache in state C, other samples of the cache replace them. Both parties know the order of
    the samples, from a seed. With ``labels_from``, the client's name, her labels are sent, too.
    """
    alice, data, memory = client
    cache, keys = memory.cache, ids + memory.first
    if state is State.C:
        keys = cache.fill_up(keys)
        return bob.loss_and_grad(*cache.read(keys))[0], cache.stale(keys)
    x, y = data.at(ids)
    with torch.set_grad_enabled(state is State.A):
        h = alice.forward(x)
    h, sent = send_up(Link(alice.name, bob.name, "activations"), h, keys, channel, memory)
    if labels_from is not None:
        y = channel.send(labels_from, bob.name, "labels", {"y": y})["y"]
    stale = cache.stale(keys[~sent]) * float((~sent).float().mean())
    cache.write(keys[sent], h[sent], y[sent])
    loss, g = bob.loss_and_grad(h.requires_grad_(state is State.A), y)
    if g is not None and bool(sent.any()):
        g = channel.send(bob.name, alice.name, "gradients", {"g": g[sent]})["g"]
        alice.backward(place(g, sent))
    return loss, stale


@checked_at_call
def train_async(
    alice: Party,
    bob: Party,
    batches: KeyedData,
    channel: Channel,
    *,
    gate: Gate,
    num_epochs: int,
    upload: Upload = Upload(),
    bookmark: Bookmark | None = None,
) -> Iterator[AsyncRecord]:
    """Train a client and a label party, who has the labels, in the states that ``gate`` decides.

    Records are those of `train_split`, with these additional keys:

    - ``epoch``, and ``state`` of the step: "A", "B" or "C"
    - ``stale``: the share of the batch's activations that an earlier version of the bottom made
    - ``threshold``, if the gate has one
    - ``checked_loss`` in the last record of a period: the mean loss that the gate was given. The
      gate decides before this record is yielded. So if you change the gate then (for example its
      threshold by a slider), the change has an effect from the next check on

    Bob announces the state at the beginning of each period and epoch, in a message of 14 bytes.

    Args:
        alice: the client.
        bob: the label party, who asks the gate.
        batches: all samples, in batches by epoch, e.g. `fltoolkit.data.Batches`.
        channel: what everything travels through.
        gate: e.g. ``LossGate(0.05)`` or ``Periodic(4)``; a fresh one for each run.
        num_epochs: over all samples.
        upload: which activations of a batch are sent; see `Upload`.
        bookmark: for saving the run and going on later with the same bits.

    >>> from torch import nn
    >>> from fltoolkit import Batches
    >>> from fltoolkit.split import Periodic
    >>> alice = Party("alice", nn.Linear(2, 3))
    >>> bob = Party("bob", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    >>> batches = Batches(torch.ones(4, 2), torch.ones(4, 1), 4, seed=0)
    >>> records = train_async(alice, bob, batches, Channel(), gate=Periodic(4), num_epochs=4)
    >>> [(record["state"], record["nbytes"]) for record in records]
    [('A', 132), ('B', 205), ('C', 219), ('C', 233)]
    """
    _check_count("num_epochs", num_epochs)
    check_clients([alice], bob, [batches])
    bookmark = bookmark or Bookmark()
    memories = memories_of([batches.num_samples], upload, bookmark.cache)
    clients = [CachedClient(alice, batches, memories[0])]
    training = _Training(clients, bob, gate, num_epochs, bookmark, relay=False)
    yield CHECKED
    yield from training.steps(channel)


@checked_at_call
def train_async_relay(
    alices: Sequence[Party],
    bob: Party,
    batches: Sequence[KeyedData],
    channel: Channel,
    *,
    gate: Gate,
    num_rounds: int,
    upload: Upload = Upload(),
    bookmark: Bookmark | None = None,
) -> Iterator[AsyncTurnRecord]:
    """Several clients in turn, as in `train_relay`, in the states that ``gate`` decides.

    Clients own their labels and send them, too. A client gets the bottom of the client before (as a
    ``model`` message, counted) only if it is about to compute with it and its own bottom is older.
    A period of the gate is a round over all clients, or ``gate.every`` steps. One cache holds the
    samples of all clients. Records are those of `train_async` with ``round`` and ``client`` in
    place of ``epoch``.

    >>> from torch import nn
    >>> from fltoolkit import Batches
    >>> from fltoolkit.split import Periodic
    >>> alices = [Party(name, nn.Linear(2, 3)) for name in ("ann", "bea")]
    >>> bob = Party("bob", nn.Linear(3, 1), loss_fn=nn.MSELoss())
    >>> batches = [Batches(torch.ones(4, 2), torch.ones(4, 1), 4, seed=0)] * 2
    >>> gate = Periodic(3)
    >>> records = train_async_relay(alices, bob, batches, Channel(), gate=gate, num_rounds=3)
    >>> [(record["client"], record["state"]) for record in records]
    [('ann', 'A'), ('bea', 'A'), ('ann', 'B'), ('bea', 'B'), ('ann', 'C'), ('bea', 'C')]
    """
    _check_count("num_rounds", num_rounds)
    check_clients(alices, bob, batches)
    bookmark = bookmark or Bookmark()
    memories = memories_of([data.num_samples for data in batches], upload, bookmark.cache)
    clients = list(map(CachedClient, alices, batches, memories))
    training = _Training(clients, bob, gate, num_rounds, bookmark, relay=True)
    yield CHECKED
    yield from training.steps(channel)


class _Turn(NamedTuple):
    """Whose batch comes next."""

    epoch: int
    client: CachedClient
    ids: Tensor
    is_first: bool  # of this client in this epoch
    is_last: bool  # of this epoch


def _check_count(name: str, count: int | range) -> None:
    if isinstance(count, range):
        raise ValueError(f"{name}={count}: give the number of all; a Bookmark says where to go on")
    to_come(name, count)


@dataclass
class _Training:
    """What `train_async` and `train_async_relay` have in common, as steps with names."""

    clients: list[CachedClient]
    bob: Party
    gate: Gate
    num_epochs: int
    bookmark: Bookmark  # counts the steps, also for a run that begins here
    relay: bool  # whether bottoms are handed on and labels sent

    def __post_init__(self) -> None:
        check_gate(self.gate)
        memories = [client.memory for client in self.clients]
        cache, mirror, _, upload = memories[0]
        if not self.bookmark.num_steps:
            if self.gate.state is State.C:
                raise ValueError(f"{self.gate!r} begins in C with an empty cache: make a fresh one")
            if mirror is not None and len(cache):  # else they would differ from the start
                raise ValueError(f"{upload} needs an empty cache on both sides: make a fresh one")
        mirrors = [memory.mirror for memory in memories if memory.mirror is not None]
        names = [client.party.name for client in self.clients]
        self.bookmark.begin(names, [self.gate, cache, *mirrors])

    def steps(self, channel: Channel) -> Iterator[Any]:
        """Train, one record for each step."""
        bob, gate, bookmark = self.bob, self.gate, self.bookmark
        networks = [bob.module, *(client.party.module for client in self.clients)]
        totals = channel.begin(set(bookmark.version_of), networks, sends_weights=self.relay)
        for turn in islice(self.turns(), bookmark.num_steps, None):  # without those done before
            client, alice, state = turn.client, turn.client.party, gate.state
            client.memory.cache.version = bookmark.version
            if state is not State.C and bookmark.version_of[alice.name] < bookmark.version:
                # her bottom is older than the newest one, which is handed on to her
                holder = next(c.party for c in self.clients if c.party.name == bookmark.holder)
                alice.load_weights(channel.send(holder.name, alice.name, "model", holder.weights()))
                bookmark.version_of[alice.name] = bookmark.version
            channel.step += 1
            if turn.is_first or not bookmark.losses:  # her turn or a period begins
                code = torch.tensor(list(State).index(state), dtype=torch.uint8)
                channel.send(bob.name, alice.name, "control", {"state": code})
            owner = alice.name if self.relay else None
            loss, stale = async_step(client, bob, turn.ids, channel, state, labels_from=owner)
            bookmark.note(alice.name, state, loss)
            who: dict[str, Any] = {"round": turn.epoch, "client": alice.name}
            when, sent = who if self.relay else {"epoch": turn.epoch}, totals()
            record = {"step": channel.step, **when, "state": state.value, "loss": loss, **sent}
            record["stale"] = stale
            if (threshold := getattr(gate, "threshold", None)) is not None:
                record["threshold"] = threshold
            yield record | self.end_of_period(channel.step, sent["nbytes"], turn.is_last)

    def turns(self) -> Iterator[_Turn]:
        """All turns of the run, from its beginning."""
        for epoch in range(self.num_epochs):
            for client in self.clients:
                rows = list(client.data.rows(epoch))
                for number, ids in enumerate(rows):
                    is_last = client is self.clients[-1] and number == len(rows) - 1
                    yield _Turn(epoch, client, ids, number == 0, is_last)

    def end_of_period(self, step: int, nbytes: int, epoch_ends: bool) -> dict[str, float]:
        """At the end of a period the gate decides about the next one."""
        losses, every = self.bookmark.losses, self.gate.every
        if not (epoch_ends if every is None else len(losses) == every):
            return {}
        mean = sum(losses) / len(losses)
        ask(self.gate, Progress(step, mean, nbytes))
        self.bookmark.losses = []
        return {"checked_loss": mean}
