"""What test_torch_distributed.py runs in several processes: small runs, and how to start them.

Processes are forked from a server that has torch loaded already, so that each takes milliseconds.
"""

import itertools
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from multiprocessing.connection import wait
from signal import SIGKILL, SIGSTOP
from typing import Any

import psutil
import torch
from torch import nn

import fltoolkit
from fltoolkit.channel import Channel
from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.data import Batches
from fltoolkit.models import seeded
from fltoolkit.party import SGD, Party
from fltoolkit.split import (
    Periodic,
    train_async,
    train_relay,
    train_split,
    train_splitfed,
    train_vertical,
)
from fltoolkit.wire import pack
from fltoolkit_engines._peers import NBYTES_ENVELOPE, Peers
from fltoolkit_engines.remote import RemoteGate, RemoteParty, absent, without_nan
from fltoolkit_engines.torch_distributed import DistributedChannel

NUM_SAMPLES, WIDTH, CUT = 24, 6, 5
PATIENCE = 300  # seconds: nothing here waits so long, also on a busy machine
Tell = Callable[[Any], None]
HERE = ["--standalone", "--local-addr", "127.0.0.1"]  # torchrun takes a free port itself
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(  # not this module: before Python 3.13 the server would not find it
    [
        "torch._dynamo",  # which an optimizer's first step would import in each process: 3 s
        *("fltoolkit_engines.torch_distributed", "fltoolkit.split", "fltoolkit.data.batches"),
        *("fltoolkit.codecs.wrappers", "fltoolkit.models", "fltoolkit.federated.rounds"),
    ]
)


def layers(seed: int = 0) -> list[nn.Module]:
    with seeded(seed):
        middle = [nn.Linear(WIDTH, CUT), nn.ReLU(), nn.Linear(CUT, CUT), nn.ReLU()]
        return [*middle, nn.Linear(CUT, 3), nn.LogSoftmax(dim=1)]


class Cast:
    """Who is in a run: builds a party, or what stands for it where it lives elsewhere."""

    def __init__(self, here: set[str] | None = None):
        self.here = here  # None: everybody, as in one process
        self.parties: list[Party] = []

    def has(self, name: str) -> bool:
        return self.here is None or name in self.here

    def party(
        self, name: str, *modules: nn.Module, loss: bool = False, learns: bool = True
    ) -> Party:
        if not self.has(name):
            return RemoteParty(name, nn.Sequential(*modules), learns=learns)
        module = nn.Sequential(*modules)
        optimizer = SGD(module.parameters(), lr=0.1) if learns else None
        self.parties.append(Party(name, module, optimizer, nn.NLLLoss() if loss else None))
        return self.parties[-1]

    def x(self, name: str, seed: int = 0) -> torch.Tensor:
        values = torch.randn(NUM_SAMPLES, WIDTH, generator=torch.Generator().manual_seed(seed))
        return values if self.has(name) else absent(NUM_SAMPLES)

    def y(self, name: str, seed: int = 0) -> torch.Tensor:
        values = torch.randint(3, (NUM_SAMPLES,), generator=torch.Generator().manual_seed(seed))
        return values if self.has(name) else absent(NUM_SAMPLES)

    def batches(self, features: str, labels: str, seed: int = 0) -> Batches:
        return Batches(self.x(features, seed), self.y(labels, seed), 8, seed=seed)


def chain(cast: Cast) -> list[Party]:
    a = layers()
    return [cast.party("alice", *a[:4]), cast.party("bob", *a[4:], loss=True)]


def vanilla(cast: Cast, channel: Channel) -> Iterator[dict]:
    return train_split(chain(cast), cast.batches("alice", "bob").epochs(2), channel)


def multi_hop(cast: Cast, channel: Channel) -> Iterator[dict]:
    a = layers()
    parties = [cast.party("alice", *a[:2], learns=False), cast.party("bob", *a[2:4])]
    parties.append(cast.party("carol", *a[4:], loss=True))
    batches = cast.batches("alice", "alice").epochs(2)
    return train_split(parties, batches, channel, labels_from="alice")


def u_shaped(cast: Cast, channel: Channel) -> Iterator[dict]:
    a = layers()
    parties = [cast.party("alice", *a[:2]), cast.party("bob", *a[2:4])]
    parties.append(cast.party("alice", *a[4:], loss=True))
    return train_split(parties, cast.batches("alice", "alice").epochs(2), channel)


def vertical(cast: Cast, channel: Channel) -> Iterator[dict]:
    feature_parties = [
        cast.party(name, *layers(k)[:2]) for k, name in enumerate(("alice", "carol"))
    ]
    with seeded(3):
        bob = cast.party("bob", nn.Linear(2 * CUT, 3), nn.LogSoftmax(dim=1), loss=True)
    batches = Batches((cast.x("alice", 1), cast.x("carol", 2)), cast.y("bob"), 8, seed=0)
    return train_vertical(feature_parties, bob, batches.epochs(2), channel)


def of_two(cast: Cast, channel: Channel, train: Callable, **how: Any) -> Iterator[dict]:
    """Two clients, one label party, two rounds."""
    names = ("alice", "carol")
    alices = [cast.party(name, *layers()[:4]) for name in names]
    bob = cast.party("bob", *layers()[4:], loss=True)
    batches = [cast.batches(name, name, seed) for seed, name in enumerate(names)]
    return train(alices, bob, batches, channel, num_rounds=2, **how)


relay = partial(of_two, train=train_relay)
splitfed_1 = partial(of_two, train=train_splitfed, version=1)
splitfed_2 = partial(of_two, train=train_splitfed, version=2)


def asynchronous(cast: Cast, channel: Channel) -> Iterator[dict]:
    alice, bob = chain(cast)
    gate = Periodic(3, every=2) if cast.has("bob") else RemoteGate(channel, "bob", "alice", every=2)
    batches = cast.batches("alice", "bob")
    return train_async(alice, bob, batches, channel, gate=gate, num_epochs=4)


TWO = {"alice": 0, "bob": 1, "carol": 1}
THREE = {"alice": 0, "bob": 1, "carol": 2, "fed_server": 1}


def codecs() -> dict[str, Any]:
    sparse = Pipeline(TopK(0.3), Quantize(8, stochastic=True))  # draws, so it has a memory
    return {"activations": Pipeline(Quantize(8)), "gradients": sparse}


def summary(cast: Cast, channel: Channel, records: list[dict]) -> dict[str, Any]:
    weights = [(party.name, pack(party.module.state_dict()).hex()) for party in cast.parties]
    transfers = [tuple(t) for t in channel.transfers]
    return {"records": records, "weights": weights, "transfers": transfers}


def alone(name: str, compressed: bool) -> dict[str, Any]:
    """The run in one process."""
    cast, channel = Cast(), Channel(codecs() if compressed else None)
    records = list(globals()[name](cast, channel))
    return summary(cast, channel, records)


def together(rank: int, tell: Tell, names: list[str], ranks: dict[str, int]) -> None:
    """One process's part in some runs, one after the other."""
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    for name in names:
        for compressed in (False, True):
            coded = codecs() if compressed else None
            with DistributedChannel(ranks, coded, timeout=PATIENCE) as channel:
                cast = Cast(channel.here)
                records = list(without_nan(globals()[name](cast, channel)))
                tell((rank, name, compressed, summary(cast, channel, records)))


def saving(
    rank: int, tell: Tell, folder: str, dies: int | None = None, signal: int = SIGKILL
) -> None:
    """Vanilla, saved every second step; the process ``dies`` after step 3, by ``signal``."""
    with DistributedChannel({"alice": 0, "bob": 1}, codecs(), timeout=PATIENCE) as channel:
        cast = Cast(channel.here)
        parties = chain(cast)
        step = channel.resume(f"{folder}/{rank}", parties)
        tell((rank, step))
        batches = itertools.islice(cast.batches("alice", "bob").epochs(2), step, None)
        for _ in train_split(parties, batches, channel):
            if channel.step % 2 == 0:
                channel.save(f"{folder}/{rank}", parties)
            if signal == SIGSTOP and channel.step == 3:
                channel.peers.timeout = 3
            if dies == rank and channel.step == 3:
                os.kill(os.getpid(), signal)
        tell((rank, summary(cast, channel, [])))


def damage(place: int) -> None:
    """From now on this process flips a bit of what it sends in step 2."""
    begin_one = Peers._start

    def begin_damaged(peers: Peers, begin: Callable, tensor: torch.Tensor, rank: int) -> Any:
        if begin is torch.distributed.isend and peers._step() == 2:
            tensor[place] ^= 4
        return begin_one(peers, begin, tensor, rank)

    Peers._start = begin_damaged


def faulty(rank: int, tell: Tell, fault: str) -> None:
    """A run that goes wrong, at process 0 or by its doing."""
    how: dict[str, Any] = {"timeout": PATIENCE, "settings": {}}
    if rank == 0:
        how["settings"] = {"lr": 0.2} if fault == "settings" else {}
        if fault in ("payload", "envelope"):
            damage(10 if fault == "envelope" else NBYTES_ENVELOPE + 30)
        if fault == "version":
            fltoolkit.__version__ = "9.9"
    try:
        with DistributedChannel({"alice": 0, "bob": 1}, codecs(), **how) as channel:
            cast = Cast(channel.here)
            parties = chain(cast)
            if fault == "shape" and rank == 0:
                parties[0].module.append(nn.Linear(CUT, CUT - 1))
            batches = cast.batches("alice", "bob")
            other = fault == "function" and rank == 0  # another function than the others call
            labels = {"labels_from": "alice"} if other else {}
            for _ in train_split(parties, batches.epochs(2), channel, **labels):
                if fault == "stopped" and rank == 0 and channel.step == 3:
                    break  # and says nothing: the end of `with` closes its lines
                if fault == "interrupt" and rank == 0 and channel.step == 3:
                    raise KeyboardInterrupt
    except BaseException as error:
        tell((rank, type(error).__name__, str(error)))
    else:
        tell((rank, "", ""))


def parts_of_one_run(
    told: list[Any], name: str, compressed: bool, ranks: dict[str, int], whole: dict[str, Any]
) -> dict[int, dict]:
    """The parts of a run by process; their ledgers are together that of one process.

    That is so for what senders have sent, and for what receivers have received.
    """
    assert not (failed := [part for part in told if len(part) == 3]), failed
    parts = {rank: part for rank, run, comp, part in told if (run, comp) == (name, compressed)}
    assert set(parts) == set(ranks.values())
    for end in (1, 2):
        there = Counter(
            t for rank, part in parts.items() for t in part["transfers"] if ranks[t[end]] == rank
        )
        assert there == Counter(whole["transfers"])
    return parts


def start(function: Callable, num: int, *arguments: Any) -> list[Any]:
    """Run ``function(rank, tell, *arguments)`` in ``num`` processes; all that they tell.

    They meet at a store that is open in this process, as with torchrun: no port is looked for that
    another process could take first.
    """
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(num)}
    place |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    place |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    ends: dict[Any, Any] = {}  # by the line on which it tells: the process
    for rank in range(num):
        line, its_end = context.Pipe(duplex=False)  # one each: who is killed keeps no lock
        about = (function, place | {"RANK": str(rank)}, its_end, arguments)
        ends[line] = context.Process(target=_run, args=about)
        ends[line].start()
        its_end.close()
    heard = []
    while ends:
        for line in wait([*ends], timeout=0.05):
            try:
                heard.append(line.recv())
            except (EOFError, OSError):  # it has ended, maybe in the middle of a word
                ends.pop(line).join()
        if all(map(is_stopped, ends.values())):  # everybody else is done with them
            for process in ends.values():
                process.kill()
    return heard


def is_stopped(process: Any) -> bool:
    try:
        return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def _run(function: Callable, place: dict[str, str], told: Any, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ |= place
    rank = int(place["RANK"])
    try:
        function(rank, told.send, *arguments)
    except Exception as error:
        told.send((rank, type(error).__name__, str(error)))
