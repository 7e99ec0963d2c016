"""From an experiment's settings to a training, and to its records.

Here: how task and channel are made, and what a run records. Not here: the settings (experiment),
what a protocol is given (task), the protocols (methods).
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import torch

from fltoolkit.cost import measure
from fltoolkit.evaluation import evaluate
from fltoolkit.history import History, Record
from fltoolkit.party import Party
from fltoolkit.research.experiment import Experiment
from fltoolkit.research.task import Task, samples
from fltoolkit.research.text import build
from fltoolkit.research.weighing import WeighingChannel

__all__ = ["num_steps", "records", "run"]


def run(experiment: Experiment) -> History:
    """Train to the end and return all records; `records` says what they hold.

    >>> history = run(Experiment(num_samples=64, rounds=2))
    >>> history.column("round"), history[-1]["nbytes"] == 2 * history[0]["nbytes"]
    ([1, 2], True)
    """
    return History(records(experiment))


def records(experiment: Experiment) -> Iterator[Record]:
    """Train, and yield one record per evaluation; to stop early, close the iterator.

    Records hold

    - ``step``, ``round`` (the rounds done) and ``loss`` (the mean training loss since the last
      record)
    - ``test_loss`` and the experiment's metric, by its name (``accuracy``), on the test set, or on
      the samples that ``validation`` held out
    - ``nbytes_up``, ``nbytes_down``, ``nbytes``: totals of all real bytes; and for each kind and
      direction real, nominal and entropy bytes, see `fltoolkit.research.WeighingChannel.sizes`
    - ``num_waits``: the number of messages that followed one another. Messages that clients send
      at the same time (fedavg, splitfed version 1) count as one. `fltoolkit.research.seconds_on`
      computes a time from this number
    - ``client_flops``: the work of all clients together, where a backward pass counts as two
      forward passes; some protocols do not record it
    - ``steps_a``, ``steps_b``, ``steps_c``: with a gate, the steps so far in each state

    >>> training = records(Experiment(num_samples=64, rounds=100))
    >>> next(training)["step"]  # after the first round: 64 samples are 2 batches of 32
    2
    >>> training.close()  # 99 rounds are never trained
    """
    if torch.get_num_threads() > 1:  # the same bits on every machine; faster for small networks
        torch.set_num_threads(1)
    task, protocol = _task(experiment), experiment.method
    per_round = protocol.records_a_round(task)
    codecs = {kind: build(text) for kind, text in experiment.codecs.items()}
    every = 53 if per_round > 1 else 7
    channel = WeighingChannel(codecs, clients=task.names, every=every)
    shape, dtype = tuple(task.data.x_train.shape[1:]), task.data.x_train.dtype
    cost = measure(task.model, shape, task.cut, input_dtype=dtype) if protocol.flops else None
    losses: list[float] = []
    steps: Counter[str] = Counter()
    for record, parties in protocol.train(task, channel):
        step = int(record["step"])
        steps[str(record.get("state", "A"))] += 1
        if "loss" in record:
            losses.append(float(record["loss"]))
        done = step * experiment.evaluations
        if done // per_round == (done - experiment.evaluations) // per_round:
            continue
        told: Record = {"step": step}
        told["round"] = step / per_round if step % per_round else step // per_round
        if losses:
            told["loss"] = sum(losses) / len(losses)
        told |= _score(experiment, task, parties)
        told |= {key: record[key] for key in ("nbytes_up", "nbytes_down", "nbytes")}
        told |= channel.sizes()
        told["num_waits"] = math.ceil(len(channel.transfers) / protocol.together(task))
        if protocol.flops and cost:
            told["client_flops"] = round(protocol.flops(task, step, steps, cost))
        if protocol.gated:
            told |= {f"steps_{state.lower()}": steps[state] for state in "ABC"}
        yield told
        losses = []


def num_steps(experiment: Experiment) -> int:
    """The number of training steps in the whole run; for federated protocols, of rounds.

    >>> num_steps(Experiment(num_samples=64, rounds=3)), num_steps(Experiment("fedavg", rounds=3))
    (6, 3)
    """
    return experiment.rounds * experiment.method.records_a_round(_task(experiment))


def _task(experiment: Experiment) -> Task:
    e = experiment
    data = samples(e.data, e.model, e.num_samples, e.validation)
    known = e.method.settings
    settings = {name: known[name].used(value) for name, value in e.settings.items()}
    return Task(e, settings, data)


def _score(experiment: Experiment, task: Task, parties: Sequence[Party]) -> Record:
    """The metric and the loss of the whole network on the test samples."""
    x, y, through = task.data.x_test, task.data.y_test, task.settings.get("through")
    return evaluate(parties, x, y, metric=experiment.measured, through=through)
