"""The methods as a list of `Experiment`s."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from experiments.null_rows import (
    ALONE,
    COMMONEST,
    MODEL_BACK,
    ONE_BIT,
    ONE_SUM,
    SEND,
    UNTRAINED,
    bits,
    sent_in,
)
from experiments.replications.dgc import DGC
from experiments.replications.distill import distilled, prototypes
from experiments.replications.jpeg import Jpeg
from experiments.replications.shrink import Shrink
from fltoolkit.codecs import Codec, ErrorFeedback, Float8, Only, Pipeline, Quantize, TopK
from fltoolkit.data import load
from fltoolkit.split import AlwaysA, BudgetGate, FreezeAfter, LossGate, Periodic
from fltoolkit_research import Experiment, num_steps
from fltoolkit_research.codecs import (
    QSGD,
    STC,
    ContextEntropy,
    Difference,
    RandTopK,
    SameMask,
    Sign,
)
from fltoolkit_research.models import random_filters
from fltoolkit_research.secrecy import Grid, SecureSum, SharedRotation

NUM_CLIENTS, CUT_WIDTH = 10, 640
SIDES = {"digits": 8, "mnist": 28}
SAMPLES = {"digits": 1437, "mnist": 60_000}
PARTITIONS = {"IID": "iid", "non-IID": "dirichlet(0.3)"}
HANDED_ON = {"model": Only(Pipeline(Quantize(8), ContextEntropy()), min_size=1000)}
"""The bottom in 8 bits on its way from client to client; with 10 clients it is much of the bill."""
MODEL_8_BITS = {"model": Pipeline(Quantize(8), ContextEntropy())}
DIFFERENCES = {"model": Difference(Pipeline(Quantize(3), ContextEntropy()))}
"""A whole model, or a bottom handed on: only what is new since the link's last message."""
_STC, _EIGHT = Pipeline(STC(0.01), ContextEntropy()), MODEL_8_BITS["model"]
DIFFERENCES_STC = {"model": Difference(_STC, first=_EIGHT)}


@dataclass(frozen=True)
class Task:
    """What is learned and for how long: passes in split learning, rounds of a pass in FedAvg."""

    data: str
    passes: int
    rounds: int
    evaluations: int  # a pass
    period: int | None  # of gates, in steps; None: a pass
    shares: tuple[int, int]  # byte budgets: one in so many of the float32 traffic
    handed_on: Mapping[str, Codec]  # with few bits at the cut
    prototypes: int  # about so many, but at least one for each class and owner
    sums: tuple[int, int, int]  # one sum: filters of two sizes, and the side of a filter
    solved: int  # filters of a receiver of the data that solves for its last layer
    secret: tuple[int, int, float]  # under a secure sum: filters, bits, the largest value
    strangers: bool  # whether each seed draws three writers, and only the test has their images
    longer: int  # rounds of a receiver of all data that trains as long as it likes
    split: Mapping[str, Any] = field(default_factory=dict)  # lr and batch size
    federated: Mapping[str, Any] = field(default_factory=dict)

    def source(self, seed: int) -> Any:
        """The data of a run, by a name or a call."""
        if self.strangers:
            return partial(load, self.data, strangers=seed)
        return KNOWN if self.data == "digits" else self.data


TASKS = {
    "digits": Task(
        "digits",
        passes=10,
        rounds=25,
        evaluations=3,
        period=None,
        shares=(20, 60),
        handed_on=DIFFERENCES,
        prototypes=35,
        sums=(14, 28, 5),
        solved=200,
        secret=(28, 10, 4.0),
        strangers=True,
        longer=60,
        split={"lr": 0.05, "batch_size": 32},
        federated={"lr": 0.1, "batch_size": 10},
    ),
    "mnist": Task(
        "mnist",
        passes=3,
        rounds=15,
        evaluations=5,
        period=94,  # a client's turn: three passes would be three periods
        shares=(75, 150),
        prototypes=1500,
        sums=(56, 114, 9),
        solved=114,
        secret=(56, 12, 8.0),
        strangers=False,  # its test images are by other people anyway
        longer=20,
        handed_on=HANDED_ON,  # three messages a link: differences are too large for 3 bits
        split={"lr": 0.05, "batch_size": 64},
        federated={"lr": 0.1, "batch_size": 32},
    ),
}
KNOWN = "digits_known_writers"
TASKS[KNOWN] = replace(TASKS["digits"], strangers=False)
"""The first split of digits: the test images are by people whom the training knows."""
FLOAT8 = {"activations": Pipeline(Float8()), "gradients": Pipeline(Float8()), **HANDED_ON}
FOUR_BITS = {
    "activations": Pipeline(Quantize(4), ContextEntropy()),
    "gradients": Pipeline(Quantize(4, stochastic=True), ContextEntropy()),
    **HANDED_ON,
}
FEW_BITS = {
    "activations": Pipeline(Quantize(2), ContextEntropy()),
    "gradients": Pipeline(TopK(0.05), Quantize(4), ContextEntropy()),
}
RAND_TOP_K = {
    "activations": Pipeline(RandTopK(0.1), ContextEntropy()),
    "gradients": Pipeline(SameMask()),
    **HANDED_ON,
}
SOLVED = "random features and a solved layer"
ALONE_PREFIX = "each owner alone, owner "
"""Runs of single owners; the table has their mean and the worst of them."""
BASELINE_SPLIT, BASELINE_FEDERATED = "SplitNN, float32", "FedAvg, float32"


def methods(task: Task, partition: str) -> Iterator[Experiment]:
    """All methods on one task, each with its name."""
    base = Experiment(
        "relay",
        data=task.data,
        num_clients=NUM_CLIENTS,
        partition=partition,
        rounds=task.passes,
        evaluations=task.evaluations,
        **task.split,
    )

    def relay(name: str, codecs: Mapping[str, Codec], **more: Any) -> Experiment:
        return replace(base, name=name, codecs=codecs, **more)

    def gated(name: str, gate: Any, codecs: Mapping[str, Codec], **more: Any) -> Experiment:
        return relay(name, codecs, protocol="split_async", gate=gate, **more)

    yield relay(BASELINE_SPLIT, {})
    yield relay("SplitNN, Float8", FLOAT8)
    yield relay("SplitNN, 4 bits both ways", FOUR_BITS)
    yield relay("SplitNN, 4 bits all ways", {**FOUR_BITS, **DIFFERENCES})
    testing = {"through": Pipeline(RandTopK(0.1, training=False))}
    yield relay("RandTopK 10 %", RAND_TOP_K, settings=testing)
    few_bits = {**FEW_BITS, **task.handed_on}
    yield gated("delta-coded cache, 2 bits", AlwaysA(), few_bits, settings={"delta": True})
    yield gated("loss gate 0.1, Float8", LossGate(0.1, task.period), FLOAT8)
    yield gated("loss gate 0.3, Float8", LossGate(0.3, task.period), FLOAT8)
    yield gated("periodic 4, Float8", Periodic(4, task.period), FLOAT8)
    yield gated(
        "freeze early, Float8", FreezeAfter(2 if task.period is None else 20, task.period), FLOAT8
    )
    steps = _num_steps(base)
    passed = base.rounds * SAMPLES[task.data]
    for share in task.shares:
        gate = BudgetGate(passed * CUT_WIDTH * 8 // share, steps)
        yield gated(f"byte budget 1/{share}, few bits", gate, few_bits)
    fed_split = {"protocol": "splitfed", "evaluations": 1}
    yield relay("SplitFed, Float8", FLOAT8, **fed_split)

    federated = replace(
        base, protocol="fedavg", rounds=task.rounds, evaluations=1, **task.federated
    )

    def fed(
        name: str, update: Codec | None, model: Mapping[str, Codec] | None = None
    ) -> Experiment:
        up = {} if update is None else {"update": update}
        return replace(federated, name=name, codecs={**up, **(model or {})})

    yield fed(BASELINE_FEDERATED, None)
    yield fed("FedPAQ", Pipeline(QSGD(4)))
    yield fed("FedPAQ + Entropy", Pipeline(QSGD(4), ContextEntropy()))
    yield fed("FedPAQ + Entropy, model 8 bits", Pipeline(QSGD(4), ContextEntropy()), MODEL_8_BITS)
    top_k = ErrorFeedback(Pipeline(TopK(0.01), Quantize(8), ContextEntropy()))
    yield fed("top-k 1 % + EF", top_k)
    yield fed("top-k 1 % + EF, model 8 bits", top_k, MODEL_8_BITS)
    three_bits = ErrorFeedback(Pipeline(Quantize(3), ContextEntropy()))
    yield fed("3 bits + EF both ways", three_bits, DIFFERENCES)
    stc = ErrorFeedback(Pipeline(STC(0.01), ContextEntropy()))
    yield fed("STC 1 %", stc)
    yield fed("STC 1 % both ways", stc, DIFFERENCES_STC)
    yield fed("DGC 1 %", Pipeline(DGC(0.01, momentum=0.5, warmup=(0.25, 0.06)), ContextEntropy()))
    yield fed("EF-sign", ErrorFeedback(Pipeline(Sign(), ContextEntropy())))
    yield fed(
        "EF-sign, model 8 bits", ErrorFeedback(Pipeline(Sign(), ContextEntropy())), MODEL_8_BITS
    )


def null_rows(task: Task, partition: str) -> Iterator[Experiment]:
    """What needs no method, on one task: the data sent, each owner alone, nothing.

    The receiver has the computing of federated averaging: as many passes, the same batches and the
    same learning rate. "Trained longer" has as much as it likes, and an optimizer that suits it.
    """
    base = Experiment(
        "pooled",
        data=task.data,
        num_clients=NUM_CLIENTS,
        partition=partition,
        rounds=task.rounds,
        **task.federated,
    )
    few = task.prototypes
    many = few > 10 * NUM_CLIENTS
    words = f"send {few:,}" if many else "send one for each class and owner:"

    def sent(name: str, codecs: Mapping[str, Codec], **settings: Any) -> Experiment:
        return replace(base, name=name, codecs=codecs, settings=settings)

    def longer(e: Experiment) -> Experiment:
        how: dict[str, Any] = {"optimizer": "AdamW(lr=0.002)", "lr": Experiment.lr}
        how |= {"rounds": task.longer, "batch_size": 64, "settings": {"decay": True}}
        return replace(e, name=f"{e.name}, trained longer", **how)

    untrained = replace(base, protocol="nothing", rounds=1)
    yield replace(untrained, name=UNTRAINED)
    yield replace(untrained, name=COMMONEST, settings={"commonest": True})
    for owner in range(1, NUM_CLIENTS + 1):
        alone = replace(base, protocol="alone", settings={"owner": owner})
        yield replace(alone, name=f"{ALONE_PREFIX}{owner}")
    yield from _one_sum(task, base)
    if partition != "iid":  # the receiver gets the same samples, whoever had them
        return
    yield sent(SEND, sent_in())
    yield sent(ONE_BIT, bits(1))
    yield sent(f"{ONE_BIT}, a quarter of it at random", bits(1), num_kept=SAMPLES[task.data] // 4)
    yield longer(sent(ONE_BIT, bits(1)))
    yield sent(f"{words} prototypes, 2 bits per pixel", bits(2), num_kept=few, choose=prototypes)
    yield sent(f"{SEND}, 2 bits per pixel", bits(2))
    yield sent(f"{SEND}, 4 bits per pixel", bits(4))
    quarter = sent_in(Shrink(2), Quantize(2))
    yield sent(f"{SEND}, a quarter of the pixels, 2 bits each", quarter)
    yield sent(f"{SEND}, JPEG quality 10", sent_in(Jpeg(10)))
    if task.data != "digits":  # there a run takes seconds
        return
    yield sent(f"{ONE_BIT}, model sent back", {**bits(1), **MODEL_BACK}, send_back=True)
    yield longer(sent(SEND, sent_in()))
    yield sent(
        f"{words} distilled samples, 4 bits per pixel", bits(4), num_kept=few, choose=distilled
    )


def _one_sum(task: Task, base: Experiment) -> Iterator[Experiment]:
    """Each owner sends sums of random features once; nobody trains."""
    small, large, side = task.sums

    def summed(num_filters: int, words: str, **how: Any) -> Experiment:
        size = SIDES[task.data]
        model = partial(random_filters, (1, size, size), num_filters, size=side)
        name = f"{ONE_SUM}, {9 * num_filters:,} features, {words}"
        once: dict[str, Any] = {"protocol": "one_sum", "model": model, "cut": 5, "rounds": 1}
        return replace(base, **once, lr=Experiment.lr, batch_size=32, name=name, **how)

    for num_filters, number in ((small, 8), (large, 5), (large, 8)):
        codec = Pipeline(Quantize(number, stochastic=True), ContextEntropy())
        yield summed(num_filters, f"{number} bits", codecs={"update": Only(codec, min_size=100)})
    if base.partition == "iid":  # the receiver gets the same samples, whoever had them
        for number in (1, 2):
            words = f"{9 * task.solved:,} {SOLVED}"  # to a receiver, features cost no byte
            name = f"{SEND}, {number} bit{'s' * (number > 1)} per pixel, {words}"
            shape = (1, SIDES[task.data], SIDES[task.data])
            model = partial(random_filters, shape, task.solved, size=side)
            once = {"protocol": "solved", "model": model, "cut": 5, "rounds": 1, "batch_size": 32}
            yield replace(base, **once, lr=Experiment.lr, codecs=bits(number), name=name)
    num_filters, number, top = task.secret
    secret = SecureSum(Pipeline(SharedRotation(), Grid(number, top)))
    yield summed(num_filters, f"{number} bits, under a secure sum", settings={"summing": secret})


def _num_steps(base: Experiment) -> int:
    """Of the whole run, of digits as in the first split; IID without looking at the data."""
    if base.partition != "iid":
        return num_steps(replace(base, data=KNOWN) if base.data == "digits" else base)
    share = math.ceil(SAMPLES[base.data] / base.num_clients)
    return base.rounds * base.num_clients * math.ceil(share / base.batch_size)


@cache
def by_name(data: str, words: str) -> dict[str, Experiment]:
    """The rows of a table by their names, without a seed; all owners alone are one row."""
    each = (part(TASKS[data], PARTITIONS[words]) for part in (methods, null_rows))
    found = {e.name: e for part in each for e in part}
    one = found[f"{ALONE_PREFIX}1"]
    return {**found, ALONE: replace(one, settings={"owner": "all"}, name=ALONE)}


def task_of(experiment: Experiment) -> str:
    """The name in `TASKS` of an experiment's data."""
    data = experiment.data
    return "digits" if isinstance(data, partial) else str(data)


def experiments(
    data: str, seeds: Iterable[int], words: Iterable[str] = PARTITIONS
) -> list[Experiment]:
    """The whole sweep: IID first, seed by seed."""
    seeds = list(seeds)
    return [
        replace(
            experiment, seed=seed, data=TASKS[data].source(seed), name=f"{experiment.name} ({word})"
        )
        for word in words
        for seed in seeds
        for experiment in (
            *methods(TASKS[data], PARTITIONS[word]),
            *null_rows(TASKS[data], PARTITIONS[word]),
        )
    ]
