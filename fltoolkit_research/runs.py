"""From an experiment's settings to a training, and to its records.

Here: how task and channel are made, and what a run records.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import Any

import torch
from torch import nn

from fltoolkit.channel import Channel
from fltoolkit.cost import ModelCost, measure
from fltoolkit.evaluation import evaluate
from fltoolkit.history import History, Record
from fltoolkit.party import Party
from fltoolkit_research.codecs.same_mask import SameMaskChannel
from fltoolkit_research.experiment import Experiment
from fltoolkit_research.task import Task


def run(experiment: Experiment) -> History:
    """Train to the end and return all records; `records` says what they hold.

    >>> history = run(Experiment(num_samples=64, rounds=2))
    >>> history.column("round"), history[-1]["nbytes"] == 2 * history[0]["nbytes"]
    ([1, 2], True)
    """
    return History(records(experiment))


def spend(experiment: Experiment, nbytes: float) -> History:
    """Train until the next record would have cost more than ``nbytes``, or to the end.

    >>> history = spend(Experiment(num_samples=64, rounds=100), 1_000_000)
    >>> len(history), history[-1]["nbytes"]
    (3, 983184)
    """
    return History(takewhile(lambda r: int(r["nbytes"]) <= nbytes, records(experiment)))


def records(experiment: Experiment) -> Iterator[Record]:
    """Train, and yield one record per evaluation; to stop early, close the iterator.

    Records hold

    - ``step``, ``round`` (the rounds done) and ``loss`` (the mean training loss since the last
      record)
    - ``test_loss`` and the experiment's metric, by its name (``accuracy``), on the test set, or on
      the samples that ``validation`` held out
    - ``nbytes_up``, ``nbytes_down``, ``nbytes``: totals of all bytes; and for each kind those from
      clients (``nbytes_model_up``), to clients (``..._down``) and between them (``..._across``)
    - ``num_waits``: the number of messages that followed one another, where those that clients
      send at the same time count as one; see `fltoolkit_research.seconds_on`
    - ``client_flops``: the work of all clients together, where a backward pass counts as two
      forward passes; some protocols do not record it
    - ``steps_a``, ``steps_b``, ``steps_c``: with a gate, the steps so far in each state

    >>> training = records(Experiment(num_samples=64, rounds=100))
    >>> next(training)["step"]  # after the first round: 64 samples are 2 batches of 32
    2
    >>> training.close()  # 99 rounds are never trained
    """
    training = _records(experiment)
    while True:
        with _one_thread():  # only while it trains
            record = next(training, None)
        if record is None:
            return
        yield record


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute with one thread: the same bits on every machine, and faster for small networks."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _records(experiment: Experiment) -> Iterator[Record]:
    task, protocol = Task(experiment), experiment.protocol
    per_round = protocol.records_per_round(task)
    channel = SameMaskChannel(experiment.codecs)
    cost = _cost(task, cuts="activations" in protocol.sends) if protocol.flops else None
    losses: list[float] = []
    steps: Counter[str] = Counter()
    step = 0
    for pair in protocol.train(task, channel):
        record, parties = _checked(experiment, pair)
        step = int(record["step"])
        steps[str(record.get("state", "A"))] += 1
        if "loss" in record:
            losses.append(float(record["loss"]))
        done = step * experiment.evaluations
        if done // per_round == (done - experiment.evaluations) // per_round:
            continue
        row: dict[str, Any] = {"step": step}
        row["round"] = step / per_round if step % per_round else step // per_round
        if losses:
            row["loss"] = sum(losses) / len(losses)
        row |= _score(experiment, task, parties)
        row |= {key: record[key] for key in ("nbytes_up", "nbytes_down", "nbytes")}
        row |= _by_kind(channel, task.names)
        row["num_waits"] = math.ceil(len(channel.transfers) / protocol.together(task))
        if protocol.flops and cost:
            row["client_flops"] = round(protocol.flops(task, step, steps, cost))
        if protocol.gated:
            row |= {f"steps_{state.lower()}": steps[state] for state in "ABC"}
        yield row
        losses = []
    _check_end(experiment, step, per_round)
    _check_kinds(experiment, channel)


def _by_kind(channel: Channel, clients: Collection[str]) -> dict[str, int]:
    """The bytes so far of each kind in each direction."""
    sums: Counter[str] = Counter()
    for t in channel.transfers:
        sender, receiver = t.sender in clients, t.receiver in clients
        way = "across" if sender == receiver else "up" if sender else "down"
        sums[f"nbytes_{t.kind}_{way}"] += t.nbytes
    return dict(sorted(sums.items()))


def _checked(experiment: Experiment, pair: Any) -> tuple[Record, Sequence[Any]]:
    """What the protocol yielded, if it is a record and a list of parties; else ValueError."""
    wanted = {"step", "nbytes_up", "nbytes_down", "nbytes"}
    if isinstance(pair, tuple) and len(pair) == 2:
        record, parties = pair
        is_record = isinstance(record, Mapping) and wanted <= record.keys() and record["step"] >= 1
        if is_record and isinstance(parties, Sequence) and parties:
            return pair
    raise ValueError(
        f"{experiment.protocol} yielded {pair!r:.200}. A record needs `step`, counted from 1, and "
        "`**totals()`; `loss` is the mean training loss. After it comes a list of parties, also "
        "if it is one; the last has the loss"
    )


def _check_end(experiment: Experiment, step: int, per_round: int) -> None:
    """Raise ValueError if a run ended before the last record, or went on after it."""
    if step != experiment.rounds * per_round:
        raise ValueError(
            f"{experiment.protocol} ended with step {step}, and records_per_round says {per_round} "
            f"for each of {experiment.rounds} rounds: pass records_per_round=one_record_per_round "
            "(the default) or one_record_per_step, or a function of the task that returns the "
            "steps of a round"
        )


def _check_kinds(experiment: Experiment, channel: Channel) -> None:
    """Raise ValueError if a kind was sent without being declared, or if a codec did nothing.

    A gate may keep a client silent, and so its codecs may be without work.
    """
    protocol = experiment.protocol
    if strangers := {transfer.kind for transfer in channel.transfers} - set(protocol.sends):
        raise ValueError(
            f"{protocol} sent {', '.join(sorted(strangers))}, and sends={tuple(protocol.sends)} "
            "does not say so: add every kind that it sends"
        )
    if not protocol.gated and (unused := channel.unused_codecs()):
        raise ValueError(
            f"{protocol} sent nothing of the kind {' and '.join(unused)}, so the codec for it did "
            "nothing: remove it from codecs, and from `sends` a kind that is never sent, or let at "
            "least one client send it"
        )


def num_steps(experiment: Experiment) -> int:
    """The number of training steps in the whole run; for federated protocols, of rounds."""
    return experiment.rounds * experiment.protocol.records_per_round(Task(experiment))


def _cost(task: Task, cuts: bool) -> ModelCost | None:
    """What the model costs; None for a whole model that cannot run on tensors without values."""
    x = task.data.x_train
    shape = tuple(x.shape[1:])
    if cuts:
        return measure(task.layers, shape, task.cut, input_dtype=x.dtype)
    with suppress(ValueError):
        return measure(nn.Sequential(nn.Identity(), task.model), shape, 1, input_dtype=x.dtype)
    return None


def _score(experiment: Experiment, task: Task, parties: Sequence[Any]) -> Record:
    """The metric and the loss of the whole network on the test samples; for several, the mean."""
    x, y, through = task.data.x_test, task.data.y_test, task.settings.get("through")
    networks = [parties] if isinstance(parties[0], Party) else parties
    scores = [evaluate(each, x, y, metric=experiment.metric, through=through) for each in networks]
    return {what: sum(float(score[what]) for score in scores) / len(scores) for what in scores[0]}
