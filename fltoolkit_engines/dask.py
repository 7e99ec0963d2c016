"""Federated averaging on a Dask cluster: a round's clients train on its workers.

Here: a channel whose clients are on the workers. `fedavg` runs unchanged in this process, which is
the server. Not here: sweeps, whose whole runs go to workers.

A client's part of a round is a function of what is sent to the worker: the model's message, the
client's codecs with their memory, its optimizer's state and a seed. So another worker can repeat
it, to the bit. The samples stay at the worker, which reads them by the client's name. Between two
rounds the memory of all clients is in this process, and `save_run` saves it.
"""

import math
import queue
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from xxhash import xxh3_64_intdigest

from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs.base import Codec
from fltoolkit.federated.client import Local, LocalUpdate
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.workers import Fleet
from fltoolkit.links import Link
from fltoolkit.trees import Tree, is_finite
from fltoolkit_engines.remote import Addressed, absent

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["DaskChannel"]

DataOf = Callable[[str], tuple[Tensor, Tensor]]
"""``samples(client)``: the client's ``(x, y)``. Workers call it."""

GROUPS, MOST = 4, 32
"""A worker gets its clients of a round in so many groups, of so many clients at most."""

MOST_OF_A_SHARE = 1.1
"""The most clients of a worker, as a multiple of an equal share: a round waits for the last one."""


class Errand(NamedTuple):
    """What a worker needs for one client's part of a round."""

    client: str
    message: bytes  # the model
    codecs: tuple[Codec, Codec]  # the client's ends: for the model, and for the update
    state: dict[str, Any] | None  # of its optimizer
    seed: int


class AtWorker(dict):
    """A stand-in for an update that came as a message; only `Channel.send` may use it."""

    def items(self) -> Any:
        """Raises ValueError: the values are elsewhere."""
        raise ValueError(
            "over Dask an update comes as the bytes that its client sent, so a mean cannot send it "
            "in another way: use one that does not, such as mean_of_all"
        )


class Reply(NamedTuple):
    """What comes back from a worker for one client."""

    client: str
    message: bytes  # the update; empty if training failed
    why: str  # it failed; "" if it did not
    memory: list[dict[str, Any]]  # what its codecs remember now
    update: LocalUpdate | None  # without the values


# ------------------------------------------------------------------------------------- the server


class DaskChannel(Channel):
    """A `Channel` whose clients train on the workers of a Dask cluster; its server is here.

    Weights, records and ledger are those of one process that trains its clients one by one::

        with Client("tcp://scheduler:8786") as dask:
            channel = DaskChannel(dask, samples, {"update": Pipeline(Quantize(8))})
            fleet = channel.fleet(["ann", "bea", "cem"])
            for record in fedavg(model, fleet, channel, ...):

    If a worker dies in a round, others train its clients. After ``patience`` seconds without an
    answer, idle workers also train the clients that are missing, and the first answer counts. A
    worker that joins gets its share of the clients in the next round. None of this changes a bit of
    the result; warnings and ``events`` report it.

    Start workers with one thread each, and with fltoolkit and the module of ``samples`` installed.

    Args:
        dask: a client of the cluster.
        samples: a function of a client's name that returns its ``(x, y)`` as tensors. Workers call
            it once for each client that trains there, and keep what it returns.
        codecs: as in `Channel`.
        patience: seconds without an answer after which idle workers help.

    Attributes:
        events: sentences about workers that joined, left or did not answer.
    """

    def __init__(
        self,
        dask: "Client",
        samples: DataOf,
        codecs: Any = None,
        *,
        patience: float = 60.0,
    ):
        super().__init__(codecs)
        if not patience > 0:
            raise ValueError(f"patience={patience}: give seconds, above 0")
        self.dask, self.samples, self.patience = dask, samples, patience
        self.events: list[str] = []
        self._run = uuid.uuid4().hex  # under this name workers keep samples
        self._names: set[str] = set()
        self._out: dict[str, tuple[Link, bytes]] = {}  # models that wait for `_train`
        self._come: dict[str, bytes] = {}  # updates that wait to be decoded
        self._silent: set[str] = set()  # clients that sent nothing in this round
        self._last, self._server = b"", ""
        self._workers: set[str] = set()
        self._late: dict[str, set[Future]] = {}  # by worker: what it was asked and others did

    def fleet(self, names: Iterable[str]) -> Fleet:
        """The clients for `fedavg`, which train at the workers; here they are stand-ins.

        Workers read the samples of their clients now, so that the first round need not wait.
        """
        self._names = set(names := list(names))
        self._meet()
        asked = [
            self.dask.submit(_count, self._run, self.samples, part, pure=False, **_at(home))
            for home, part in self._homes(names).items()
            for part in _groups(part)
        ]
        sizes = {name: size for part in self.dask.gather(asked) for name, size in part.items()}
        stand_ins = {size: (absent(size), absent(size)) for size in set(sizes.values())}
        return Fleet({name: stand_ins[sizes[name]] for name in names}, self._train)

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Encode a model for a worker, or decode an update that came from one."""
        if link.receiver in self._names and link.kind == "model":
            message = self.links.codecs_of(link).sending.encode(tree)
            if message == self._last:
                message = self._last  # one copy in memory for all who get the same
            self._out[link.receiver], self._last = (link, message), message
            self._server = link.sender
            self.count(link, message, tree)
            return Delivery(Addressed(link.receiver), b"")
        if link.sender not in self._names or link.kind != "update":
            silent = link.sender in self._silent
            return Delivery({}, b"") if silent else super().cross(link, tree)
        message = self._come.pop(link.sender)
        try:
            received = self.decode(link, message)
        except ValueError as error:
            raise type(error)(f"{link}: {error}") from error
        self.count(link, message, received)
        return Delivery(received, message)

    def _train(
        self,
        model: nn.Module,
        starts: Sequence[Tree],
        data: Sequence[Any],
        local: Local,
        *,
        seeds: Sequence[int],
        states: Sequence[dict[str, Any] | None] | None = None,
    ) -> list[LocalUpdate | FloatingPointError]:
        names = [start.receiver for start in starts if isinstance(start, Addressed)]
        kept = states or [None] * len(names)
        errands = {}
        for name, seed, state in zip(names, seeds, kept, strict=True):
            link, message = self._out.pop(name)
            errands[name] = Errand(name, message, self._ends_of(link), state, seed)
        for link, message in self._out.values():  # they drop out, but they got the model
            self.decode(link, message)
        self._out.clear()
        self._silent.clear()
        self._meet()
        outcomes = self._ask(model, local, errands)
        return [outcomes.pop(name) for name in names]

    # ---- a round

    def _ask(
        self, model: nn.Module, local: Local, errands: dict[str, Errand]
    ) -> dict[str, LocalUpdate | FloatingPointError]:
        """Give the clients to workers in groups, and take the first answer for each group."""
        arrived: queue.SimpleQueue[Future] = queue.SimpleQueue()
        asked: dict[Any, tuple[int, str]] = {}  # by key: the group's number, and to whom it went
        running: dict[int, list[Future]] = {}

        def submit(number: int, home: str, strict: bool = False) -> None:
            group = [errands[name] for name in groups[number]]
            what = (self._run, self.samples, model, local, group)
            future = self.dask.submit(_learn, *what, pure=False, **_at(home, strict))
            asked[future.key] = number, home
            running.setdefault(number, []).append(future)
            future.add_done_callback(arrived.put)

        homes = self._homes(errands).items()
        placed = [(home, group) for home, names in homes for group in _groups(names)]
        groups = [group for _, group in placed]
        outcomes: dict[str, LocalUpdate | FloatingPointError] = {}
        for number, (home, _) in enumerate(placed):
            submit(number, home)
        while running:
            try:
                future = arrived.get(timeout=self.patience)
            except queue.Empty:
                for number, helper in self._helped(running, asked):
                    submit(number, helper, strict=True)
                continue
            number, _ = asked[future.key]
            if number not in running:  # another worker was faster
                continue
            outcomes |= self._outcomes(future, groups[number])
            self._leave(running.pop(number), asked)
        self._meet(gone_only=True)
        for name in [name for name in errands if name not in outcomes]:
            self._meet()  # one of these clients may have ended workers: train one at a time
            outcomes |= self._ask(model, local, {name: errands[name]})
        return outcomes

    def _leave(self, futures: "list[Future]", asked: dict[Any, tuple[int, str]]) -> None:
        """Release these futures, or remember their workers as late where they still compute."""
        for future in futures:
            if future.done():
                future.release()
            else:
                self._late.setdefault(asked[future.key][1], set()).add(future)

    def _outcomes(
        self, future: "Future", group: list[str]
    ) -> dict[str, LocalUpdate | FloatingPointError]:
        """What a group has learned; its messages wait for `cross`.

        Empty if several workers died with this group of several clients.
        """
        from distributed import KilledWorker

        try:
            answers = future.result()
        except KilledWorker as error:
            if len(group) > 1:
                self._say(f"workers died with {_words(group, 'client')}: each is tried alone")
                return {}
            self._silent.update(group)
            why = f"each worker that trained it died; is there enough memory? {error}"
            return dict.fromkeys(group, FloatingPointError(why))
        outcomes: dict[str, LocalUpdate | FloatingPointError] = {}
        for client, message, why, memory, update in answers:
            ends = self._ends_of(Link(self._server, client, "model"))
            for codec, state in zip(ends, memory, strict=True):
                codec.load_state_dict(state)
            if update is None:
                outcomes[client] = FloatingPointError(why)
            else:
                self._come[client] = message
                outcomes[client] = update._replace(delta=AtWorker())
        return outcomes

    def _ends_of(self, link: Link) -> tuple[Codec, Codec]:
        """The client's ends of its two links: where the model comes, and where the update goes."""
        up = self.links.codecs_of(Link(link.receiver, link.sender, "update"))
        return self.links.codecs_of(link).receiving, up.sending

    # ---- the workers

    def _meet(self, gone_only: bool = False) -> None:
        """Update the list of workers, and report which have joined or left."""
        there = set(self.dask.nthreads())
        if not there and not gone_only:
            self._say("there is no worker: waiting for one")
            while not (there := set(self.dask.nthreads())):  # `wait_for_workers` counts dead ones
                time.sleep(0.2)
        if gone := sorted(self._workers - there):
            self._say(f"{_words(gone)} left; others do what it has not done")
            self._workers -= set(gone)
        if gone_only:
            return
        if self._workers and (come := sorted(there - self._workers)):
            self._say(f"{_words(come)} joined", warn=False)
        self._workers = there

    def _homes(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The clients of each worker.

        Each client ranks all workers by a hash, and gets the first one that is not late and not
        full. So most clients keep their worker, and their samples, when one joins or leaves.
        """
        for home, futures in list(self._late.items()):
            self._late[home] = {future for future in futures if not future.done()}
        able = [w for w in self._workers if not self._late.get(w)] or list(self._workers)
        return _dealt(list(names), sorted(able))

    def _helped(
        self, running: dict[int, list["Future"]], asked: dict[Any, tuple[int, str]]
    ) -> list[tuple[int, str]]:
        """Groups without an answer yet, each with an idle worker that trains it, too."""
        busy = {worker for worker, keys in self.dask.processing().items() if keys}
        idle = sorted(set(self.dask.nthreads()) - busy)
        waiting = [number for number, futures in running.items() if len(futures) == 1]
        if not idle or not waiting:
            return []
        slow = sorted({asked[running[number][0].key][1] for number in waiting})
        self._say(
            f"{_words(slow)} did not answer for {self.patience:g} s: {_words(idle)} also does "
            f"{len(waiting)} groups of clients"
        )
        return [(number, idle[k % len(idle)]) for k, number in enumerate(waiting)]

    def _say(self, what: str, warn: bool = True) -> None:
        self.events.append(words := f"round {max(self.step - 1, 0)}: {what}")
        if warn:
            warnings.warn(words, stacklevel=2)


def _dealt(names: Sequence[str], workers: Sequence[str]) -> dict[str, list[str]]:
    """The clients of each worker, by the hashes of both names; no worker gets far too many."""
    most = math.ceil(MOST_OF_A_SHARE * len(names) / len(workers))
    homes: dict[str, list[str]] = {}
    for name in names:
        free = [worker for worker in workers if len(homes.get(worker, [])) < most]
        own = max(free, key=lambda worker: xxh3_64_intdigest(f"{name} {worker}".encode()))
        homes.setdefault(own, []).append(name)
    return homes


def _words(names: Sequence[str], what: str = "worker") -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {what}s ({shown})" if len(names) > 1 else f"{what} {shown}"


def _at(worker: str, strict: bool = False) -> dict[str, Any]:
    """Arguments of ``submit``: at this worker, or with ``strict`` at no other."""
    return {"workers": [worker], "allow_other_workers": not strict}


def _groups(names: list[str]) -> list[list[str]]:
    size = min(MOST, -(-len(names) // GROUPS))
    return [names[k : k + size] for k in range(0, len(names), size)]


# -------------------------------------------------------------------------------------- a worker

_kept: dict[str, dict[str, tuple[Tensor, Tensor]]] = {}  # by run, then by client: its samples
_alone = threading.Lock()  # one client at a time: random layers use the process's generator


def _samples_of(run: str, samples: DataOf, client: str) -> tuple[Tensor, Tensor]:
    if run not in _kept:
        _kept.clear()  # of an earlier run
    mine = _kept.setdefault(run, {})
    if client not in mine:
        mine[client] = samples(client)
    return mine[client]


def _count(run: str, samples: DataOf, clients: list[str]) -> dict[str, int]:
    return {client: len(_samples_of(run, samples, client)[1]) for client in clients}


def _learn(
    run: str, samples: DataOf, model: nn.Module, local: Local, group: list[Errand]
) -> list[Reply]:
    """A group of clients learns here, one after the other."""
    with _alone:
        torch.set_num_threads(1)
        return [_learn_one(run, samples, model, local, errand) for errand in group]


def _learn_one(run: str, samples: DataOf, model: nn.Module, local: Local, errand: Errand) -> Reply:
    client, message, (down, up), state, seed = errand
    start, data = down.decode(message), _samples_of(run, samples, client)
    more = {"states": [state]} if local.keep_state else {}
    sent = b""
    try:
        (found,) = local_updates(model, [start], [data], local, seeds=[seed], chunk=1, **more)
        if isinstance(found, LocalUpdate):
            if not all(map(is_finite, found.delta.values())):
                found = FloatingPointError("its update holds NaN or infinite values")
            else:
                sent = up.encode(found.delta)
    except (TypeError, ValueError, RuntimeError) as error:
        raise type(error)(f"client {client!r}: {error}") from error
    memory = [codec.state_dict() for codec in (down, up)]
    if isinstance(found, FloatingPointError):
        return Reply(client, sent, str(found), memory, None)
    return Reply(client, sent, "", memory, found._replace(delta={}))
