"""The verifier: five runs drawn after the entry was hashed, one of them replayed, one bound."""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from fltoolkit_contest.card import NUM_RUNS, Card, about_machine, bound, printable
from fltoolkit_contest.entry import Entry, read_entry
from fltoolkit_contest.hosts import Hosts, Request, checked
from fltoolkit_contest.party import Process
from fltoolkit_contest.pipes import Array, parse, to_bytes
from fltoolkit_contest.slots import CupError, Wire
from fltoolkit_contest.tracks import CONTEXT, Drawn, Track, chosen
from fltoolkit_research.leakage.attacks import auc, explained_variance, train_decoder
from fltoolkit_research.pooled.compressors import lossless

ROLES = {"open": ("server", "owner"), "sums": ("server", "owner"), "split": ("labels", "features")}
_ATTACKED = 300  # samples for the attack on membership
LARGEST_CODE = 1024  # bytes of a message about one hidden sample: the attack on them takes long
LARGEST_RUN = 2 << 30  # bytes of the messages of a run, which are kept for the replay


@dataclass
class Play:
    """One run: its parties, its wire, and everything that crossed."""

    track: Track
    league: str
    entry: Entry
    drawn: Drawn
    seed: int  # the public one, which all parties know
    wire: Wire
    groups: list[list[int]]  # the owners of each process
    crossed: list[tuple[Request, list[Array], list[Any], list[Array], list[Array]]] = field(
        default_factory=list
    )
    scores: Array | None = None
    codes: list[Array] = field(default_factory=list)  # of the hidden samples, in league split
    nbytes_kept: int = 0  # of all messages that the parties sent

    @classmethod
    def of(cls, track: Track, league: str, entry: Entry, salt: str, number: int) -> "Play":
        """Draw run ``number`` from the salt and the hash of the entry."""
        seeds = [_drawn(salt, entry.sha256, number, what) for what in ("secret", "public")]
        num_owners = 1 if league == "split" else track.num_owners
        groups = _grouped(list(range(num_owners)), track.per_process)
        drawn = track.draw(seeds[0], league)
        return cls(track, league, entry, drawn, seeds[1], Wire(league, num_owners), groups)

    def setups(self) -> list[Request]:
        """What each process is given: first the server, then each group of owners."""
        return [self._setup([-1]), *(self._setup(group) for group in self.groups)]

    def _setup(self, numbers: list[int]) -> Request:
        seats, arrays = [], [np.frombuffer(self.entry.source.encode(), np.uint8)]
        for number in numbers:
            x, y = (None, self.drawn.server) if number < 0 else self.drawn.owners[number]
            given = {"x": x, "y": y}
            seat = {name: value is not None for name, value in given.items()}
            task = {"num_classes": self.track.num_classes, "shape": list(self.track.shape)}
            about = {"number": number, "num_owners": self.wire.num_owners, "seed": self.seed}
            seats.append({**about, **task, **seat})
            values = [value for value in given.values() if value is not None]
            plain = (np.uint8, np.float32)
            arrays += [v if v.dtype in plain else v.astype(np.int64) for v in values]
        return {"roles": ROLES[self.league], "seats": seats}, arrays

    def exchanges(self, hosts: Any) -> Iterator[Wire]:
        """Carry messages until the server ends, and yield the wire after each exchange."""
        (reply,) = hosts.ask([self._to_server([])], [0])
        while not reply[0].get("end"):
            if self.wire.exchanges >= self.track.exchanges:
                raise CupError(f"the server did not end after {self.track.exchanges:,} exchanges")
            downs = self.wire.down(*reply)
            asked = [({"do": "answer"}, [downs[n] for n in group]) for group in self.groups]
            answers = hosts.ask(asked, range(1, 1 + len(self.groups)))
            heads, ups = self._by_owner(answers)
            arrived = self.wire.up(heads, ups)
            self.nbytes_kept += sum(array.nbytes for array in (*reply[1], *ups))
            if self.nbytes_kept > LARGEST_RUN:
                raise CupError(f"the messages of a run take more than {LARGEST_RUN:,} bytes")
            self.crossed.append((reply, downs, heads, ups, arrived))
            (reply,) = hosts.ask([self._to_server(arrived)], [0])
            yield self.wire

    def _to_server(self, arrived: list[Array]) -> Request:
        return {"do": "go_on", "sum": self.league == "sums"}, arrived

    def _by_owner(self, answers: list[Request]) -> tuple[list[Any], list[Array]]:
        heads: list[Any] = [None] * self.wire.num_owners
        ups: list[Any] = [None] * self.wire.num_owners
        for group, (about, arrays) in zip(self.groups, answers, strict=True):
            mine = about.get("heads")
            if not isinstance(mine, list) or not len(mine) == len(arrays) == len(group):
                raise CupError("a party's answer is malformed: give an answer for each owner")
            for number, head, array in zip(group, mine, arrays, strict=True):
                if not isinstance(head, list) or not 1 <= len(head) <= 2:
                    raise CupError("a party's answer is malformed: give (kind, bytes)")
                heads[number], ups[number] = head, array
        return heads, ups

    def predict(self, hosts: Any, x: Array) -> tuple[Array, list[Array]]:
        """The server's scores of these samples, and what the features party sent about them.

        Each sample is asked for on its own, and answered from the state after the last exchange.
        """
        codes = self.encode(hosts, x, 1) if self.league == "split" else []
        return self.ask(hosts, codes or list(x)), codes

    def encode(self, hosts: Any, x: Array, number: int) -> list[Array]:
        """What the features party, process ``number``, sends about each of these samples."""
        codes = []
        for sample in x:
            ((_, sent),) = hosts.ask([({"do": "encode"}, [sample])], [number])
            if len(sent) != 1 or sent[0].dtype != np.uint8 or sent[0].ndim != 1:
                raise CupError("a party's answer is malformed: give a message for each sample")
            if sent[0].size > LARGEST_CODE:
                raise CupError(
                    f"encode sent {sent[0].size:,} bytes about a hidden sample: at most "
                    f"{LARGEST_CODE:,} are allowed"
                )
            codes += sent
        return codes

    def ask(self, hosts: Any, samples: list[Array]) -> Array:
        """The server's scores of each of these samples, or of the messages about them."""
        scores = np.zeros((len(samples), self.track.num_classes))
        about = {"do": "ask", "coded": self.league == "split"}
        for row, sample in zip(scores, samples, strict=True):
            ((_, found),) = hosts.ask([(about, [sample])], [0])
            if len(found) != 1 or found[0].shape != row.shape or not np.isfinite(found[0]).all():
                raise CupError(
                    f"the server's function gave scores of shape {[a.shape for a in found]}, or "
                    f"not finite ones: {len(row)} finite numbers for each sample are wanted"
                )
            row[:] = found[0]
        return scores

    def losses(self, scores: Array, y: Array) -> Array:
        """Nats per sample: scores become probabilities here, so that they add up to 1.

        A billion stands for what is more, also where a probability is 0.
        """
        logs = torch.from_numpy(scores).log_softmax(1).numpy()
        return np.minimum(-logs[np.arange(len(y)), y.astype(np.int64)], 1e9)

    def score(self, scores: Array, y: Array) -> float:
        """The track's metric."""
        if self.track.metric == "accuracy":
            return float((scores.argmax(1) == y).mean())
        return float(self.losses(scores, y).mean())

    def leak(self, hosts: Any, scores: Array, codes: list[Array]) -> dict[str, float]:
        """What the package's attacks find: see docs/cup.md."""
        x, y = self.drawn.hidden
        if codes:  # half of the hidden samples teach the attacker, the other half are attacked
            width = max(code.size for code in codes)
            rows = np.zeros((len(codes), max(width, 1)), np.uint8)
            for row, code in zip(rows, codes, strict=True):
                row[: code.size] = code
            both = np.concatenate([rows, np.unpackbits(rows, axis=1) * 255], axis=1)
            h, pixels = torch.from_numpy(both) / 255, torch.from_numpy(x).float()
            half = len(h) // 2
            decoder = train_decoder(h[:half], pixels[:half], seed=0)
            guess = decoder(h[half:]).detach()
            share = explained_variance(guess, pixels[half:], decoder.mean_input)
            return {"share of the features' variance": share}
        members = _members(self.drawn, self.seed)
        known = self.ask(hosts, list(members[0]))
        losses = [self.losses(known, members[1]), self.losses(scores, y)[:_ATTACKED]]
        is_member = torch.arange(sum(map(len, losses))) < len(losses[0])
        found = auc(torch.from_numpy(-np.concatenate(losses)), is_member)
        return {"membership, area under the ROC curve": found}


def _members(drawn: Drawn, seed: int) -> tuple[Array, Array]:
    """Samples that some owner has trained on."""
    rng = np.random.default_rng([seed, 2])
    x = np.concatenate([x for x, _ in drawn.owners])
    if drawn.owners[0][1] is None:  # a text
        places = rng.integers(len(x) - CONTEXT, size=_ATTACKED)
        return np.stack([x[p : p + CONTEXT] for p in places]), x[places + CONTEXT]
    rows = rng.permutation(len(x))[:_ATTACKED]
    return x[rows], np.concatenate([y for _, y in drawn.owners if y is not None])[rows]


def _grouped(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[k : k + size] for k in range(0, len(numbers), size)]


def _drawn(salt: str, sha256: str, number: int, what: str) -> int:
    digest = hashlib.sha256(f"{salt}/{sha256}/{number}/{what}".encode()).digest()
    return int.from_bytes(digest[:6], "little")


def _same(one: Request, other: Request) -> bool:
    same = one[0] == other[0] and len(one[1]) == len(other[1])
    return same and all(map(np.array_equal, one[1], other[1]))


class _Here:
    """Parties in this process, without a fence: for rehearsals."""

    def __init__(self, setups: list[Request]):
        self.processes = [Process(*parse(to_bytes(*setup)[8:])) for setup in setups]

    def ask(self, requests: Sequence[Request], of: Sequence[int]) -> list[Request]:
        """As `Hosts.ask`."""
        pairs = zip(of, requests, strict=True)
        return [checked(self.processes[n].reply(*parse(to_bytes(*r)[8:]))) for n, r in pairs]


def rehearse(text: str, *, track: str, league: str, number: int = 0) -> Iterator[dict[str, Any]]:
    """One run in this process, without a fence: records of the bytes so far, at last the score.

    It is quick and works on every system, and it runs the entry as your own code: rehearse what you
    have written yourself. While the server keeps a function in ``me.predict``, each record also has
    the score of that moment; the verifier looks only once, at the end.

    Records hold ``exchange``, ``nbytes_up``, ``nbytes_down``, ``nbytes`` and the track's metric.

    >>> source = '''
    ... def owner(me, message):
    ...     return "labels", bytes([me.y[0]])
    ... def server(me):
    ...     labels = yield "control", b""
    ...     return lambda x: [float(number == labels[0][0]) for number in range(10)]
    ... '''
    >>> [record["nbytes"] for record in rehearse(source, track="digits", league="open")]
    [15, 15]
    """
    play = Play.of(*chosen(track, league), read_entry(text), "rehearsal", number)
    here = _Here(play.setups())
    x, y = play.drawn.hidden

    def record(wire: Wire) -> dict[str, Any]:
        up = sum(n for (direction, _), n in wire.ledger.items() if direction == "up")
        totals = {"nbytes_up": up, "nbytes_down": wire.nbytes - up, "nbytes": wire.nbytes}
        return {"exchange": wire.exchanges, **totals}

    server = here.processes[0]
    for wire in play.exchanges(here):
        now = record(wire)
        if predict := getattr(server.seats[0], "predict", None):
            server.predict = predict
            now[play.track.metric] = play.score(play.predict(here, x)[0], y)
        yield now
    scores, codes = play.predict(here, x)
    play.wire.coded(codes)
    yield {**record(play.wire), play.track.metric: play.score(scores, y)}


def verify(
    text: str,
    *,
    track: str,
    league: str,
    name: str = "entry",
    salt: str | None = None,
    num_runs: int = NUM_RUNS,
    report: Callable[[str], None] = print,
) -> Card:
    """Verify an entry: its runs behind the fence, a replay of one of them, and the card.

    Args:
        text: the entry's file.
        track, league: one of `TRACKS`, and one of its leagues.
        name: of the entry, for the card.
        salt: from which all seeds are made, together with the hash of the entry. None: drawn now,
            as it must be for a record; a card's own salt makes the same card again.
        num_runs: 5 for a record; fewer are a trial, which is never accepted.
        report: is called with one line after each run.

    Raises CupError if the entry breaks a rule, and OSError where there can be no fence.

    The docs have an example: docs/cup.md.
    """
    task, league = chosen(track, league)
    higher = task.metric == "accuracy"  # is better
    bound([0.0] * num_runs)  # ValueError if so many runs are not possible
    entry = read_entry(text)
    salt = salt or secrets.token_hex(16)
    # not the last one: what a party left behind in the machine is then of another run
    replayed = _drawn(salt, entry.sha256, num_runs, "replay") % max(1, num_runs - 1)
    used, runs, kept = {"cpu_seconds": 0.0, "memory": 0.0}, [], None
    for number in range(num_runs):
        play = Play.of(task, league, entry, salt, number)
        runs.append(run := _one_run(play, used))
        score = f"{100 * run['score']:.2f} %" if higher else f"{run['score']:.3f} nats"
        report(f"run {number + 1}: {score}, {run['nbytes']:,} bytes, {run['exchanges']} exchanges")
        kept = play if number == replayed else kept
    if kept is not None:
        _again(kept, _drawn(salt, entry.sha256, replayed, "again"), used)
        report(f"run {replayed + 1} was made again from its messages, party by party: the same")
    low = bound([run["score"] for run in runs], higher_is_better=higher)
    reached = low >= task.target if higher else low <= task.target
    return Card(
        track=track,
        league=league,
        name=printable(name, 80) or "entry",
        sha256=entry.sha256,
        salt=salt,
        target=task.target,
        metric=task.metric,
        runs=runs,
        bound=low,
        accepted=reached and num_runs == NUM_RUNS,
        charge=entry.charge,
        code={"zipped": entry.nbytes_code, "constants": entry.num_constants}
        | {"names": entry.num_names},
        data_nbytes=_data_nbytes(task, league, salt, entry),
        measured={**{name: round(value, 1) for name, value in used.items()}, **about_machine()},
    )


def _one_run(play: Play, used: dict[str, float]) -> dict[str, Any]:
    x, y = play.drawn.hidden
    with Hosts(play.track.cpu_seconds) as hosts:
        hosts.start(play.setups())
        for _ in play.exchanges(hosts):
            pass
        play.scores, play.codes = play.predict(hosts, x)
        play.wire.coded(play.codes)
        hosts.look()
        used["cpu_seconds"] += hosts.cpu_seconds
        used["memory"] = max(used["memory"], hosts.memory)
        leak = play.leak(hosts, play.scores, play.codes)
    return {
        "score": round(play.score(play.scores, y), 6),
        "nbytes": play.wire.nbytes,
        "exchanges": play.wire.exchanges,
        "ledger": {f"{way} {kind}": n for (way, kind), n in sorted(play.wire.ledger.items())},
        "leak": {name: round(value, 3) for name, value in leak.items()},
    }


def _regrouped(groups: list[list[int]], seed: int) -> list[list[int]]:
    """The owners in groups of the same size; where they can be, in others than before.

    >>> _regrouped([[0, 1, 2], [3, 4]], seed=0)
    [[2, 3, 4], [0, 1]]
    """
    rng, size = np.random.default_rng(seed), len(groups[0])
    before = {tuple(group) for group in groups}
    while True:
        numbers = rng.permutation(sum(map(len, groups))).tolist()
        found = [sorted(group) for group in _grouped(numbers, size)]
        if size == 1 or len(groups) == 1 or {*map(tuple, found)} != before:
            return found


def _again(first: Play, seed: int, used: dict[str, float]) -> None:
    """Make a run again from its recorded messages; CupError if any party sends something else.

    Each process is started while no other one runs, after runs with other samples; owners that
    shared a process are grouped in another way; and the hidden samples are asked for in another
    order. So what a party sent must follow from its own samples, the seed and what arrived: time,
    neighbours and other hidden samples are no channel. docs/cup.md has what it cannot find.
    """
    groups = _regrouped(first.groups, seed)
    play = replace(first, wire=Wire(first.league, first.wire.num_owners), groups=groups)
    order = np.random.default_rng(seed).permutation(len(first.drawn.hidden[0]))
    for number, setup in enumerate(play.setups()):
        with Hosts(first.track.cpu_seconds) as hosts:
            hosts.start([setup])
            if number == 0:
                _compare_server(play, hosts, order)
            else:
                _compare_owners(play, hosts, groups[number - 1], order)
            hosts.look()
            used["cpu_seconds"] += hosts.cpu_seconds


def _compare_server(play: Play, hosts: Hosts, order: Array) -> None:
    """Ask the server what it was asked before, and compare the answers."""
    arrived: list[Array] = []
    for reply, *_, then in play.crossed:
        if not _same(hosts.ask([play._to_server(arrived)])[0], reply):
            raise CupError(_DIFFERS)
        arrived = then
    if not hosts.ask([play._to_server(arrived)])[0][0].get("end"):
        raise CupError(_DIFFERS)
    assert play.scores is not None
    x, y = (each[order] for each in play.drawn.hidden)
    scores = play.ask(hosts, [play.codes[k] for k in order] if play.codes else list(x))
    one, other = scores.argmax(1), play.scores[order].argmax(1)
    if play.track.metric != "accuracy":
        one, other = play.losses(scores, y), play.losses(play.scores[order], y)
    if not np.array_equal(one, other):
        raise CupError(
            "asked in another order, the server's function gave other answers: what it answers "
            "for a sample may not depend on the samples before"
        )


def _compare_owners(play: Play, hosts: Hosts, group: list[int], order: Array) -> None:
    """Ask the owners of one process what they were asked before, and compare the answers."""
    for _, downs, heads, ups, _ in play.crossed:
        (answer,) = hosts.ask([({"do": "answer"}, [downs[n] for n in group])])
        if not _same(answer, ({"heads": [heads[n] for n in group]}, [ups[n] for n in group])):
            raise CupError(_DIFFERS)
    if play.codes:
        codes = play.encode(hosts, play.drawn.hidden[0][order], 0)
        if not _same(({}, codes), ({}, [play.codes[k] for k in order])):
            raise CupError(_DIFFERS)


_DIFFERS = (
    "replayed alone, a party sent other bytes than before. What it sends may only depend on "
    "its samples, on me.seed and on what arrived; draw numbers from me.rng() or me.shared()"
)


def _data_nbytes(track: Track, league: str, salt: str, entry: Entry) -> int:
    """The training samples of the first run, compressed without loss (see `lossless`)."""
    drawn = track.draw(_drawn(salt, entry.sha256, 0, "secret"), league)
    total = 0
    for x, y in drawn.owners:
        rows, whole = (slice(None), 1.0) if len(x) < 5000 else (slice(None, 5000), len(x) / 5000)
        trees = [{"x": torch.from_numpy(np.ascontiguousarray(x[rows]))}]
        trees += [] if y is None else [{"y": torch.from_numpy(np.sort(y[rows]))}]
        total += round(whole * sum(len(lossless().encode(tree)) for tree in trees))
    return total
