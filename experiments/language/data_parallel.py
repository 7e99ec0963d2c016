"""Workers that train one model: what they send, and what it costs and brings.

Here: the settings and one training run. Not here: tables (report.py).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from experiments.language.task import FRESH_SEEDS, Cosine, Task, halves, held_out, model_of, text_of
from experiments.replications.decoupled_momentum import demo, dion
from experiments.replications.ef21_muon import ef21_muon
from experiments.replications.entropy_schedule import EntropySchedule, FixedSchedule
from experiments.replications.gossip import noloco, sparta
from experiments.replications.lowrank import PowerSGD
from experiments.replications.moments import des_loc
from experiments.replications.outer_momentum import Averaged, Restarted
from experiments.replications.streaming import streaming_diloco
from experiments.runs import Result, digest
from fltoolkit import Channel
from fltoolkit.codecs import Codec, ErrorFeedback, Float8, Half, Pipeline, Quantize, TopK
from fltoolkit.data import partition_iid
from fltoolkit.federated import Fleet, Local
from fltoolkit_research.codecs import BFloat16, ContextEntropy, LloydMax, Sign
from fltoolkit_research.federated import (
    AllGather,
    Exchange,
    Ring,
    ThroughServer,
    ddp,
    diloco,
    muon_for,
)

PART = "data parallel"
LR = {"AdamW": 1.2e-2, "Muon": 0.04, "SGD": 0.5}
LONGER, LONGEST = 1800, 5400  # steps of the tables that show what becomes of the gaps
UNDER_MOMENTUM = {"AdamW": 3e-3, "Muon": 0.02, "SGD": 0.1}  # outer momentum makes steps longer


@dataclass(frozen=True)
class Setting:
    """One way to train: who takes how many steps with what, and what travels where, how coded."""

    name: str
    method: str = "diloco"  # or "ddp", "streaming", "demo", "noloco", "sparta", "dion", "ef21_muon"
    optimizer: str = "AdamW"
    inner_steps: int = 1  # H
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    exchange: Exchange = field(default_factory=ThroughServer)
    outer: tuple[float, ...] | None = None  # see `outer_of`
    lr: float | None = None
    workers: int | None = None  # None: those of the task
    steps: int | None = None
    by_role: bool = False
    whole_text: bool = False  # of one worker: it has the windows of all, and not its share
    worker: int = 0  # of a worker that is alone: which share it has
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method alone
    claim: str = ""  # what the method's paper says
    group: str = "methods"  # the table it belongs to
    seeds: tuple[int, ...] = FRESH_SEEDS
    part: str = PART

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called."""
        what = {**asdict(task), "part": self.part, "seed": seed, "method": self.method}
        what |= {"optimizer": self.optimizer, "lr": self.rate, "inner_steps": self.inner_steps}
        exchange = repr(self.exchange).replace("'server')", "'server', multicast=False)")  # once
        codecs = {kind: repr(codec) for kind, codec in self.codecs.items()}
        what |= {"codecs": codecs, "exchange": exchange}
        what |= {"outer": self.outer, "warm": 0, "by_role": self.by_role}
        what |= {"warm_codecs": {}, "workers_here": self.workers}  # as before
        what |= {"steps_here": self.steps} | ({"whole_text": True} if self.whole_text else {})
        what |= {"worker": self.worker} if self.worker else {}
        what |= {"options": dict(self.options)} if self.options else {}
        return digest(what)

    @property
    def rate(self) -> float:
        """The learning rate."""
        long = self.outer is not None and self.outer[1] > 0.8
        return self.lr or (UNDER_MOMENTUM if long else LR)[self.optimizer]


def both(codec: Codec) -> dict[str, Codec]:
    """The same codec in both directions, with error feedback."""
    return {"update": ErrorFeedback(codec), "model": ErrorFeedback(codec)}


TWO_BITS = both(Pipeline(LloydMax(2), ContextEntropy()))
CHANGES = dict.fromkeys(("update", "model"), Pipeline(LloydMax(2), ContextEntropy()))  # of EF21
FOUR_BITS = both(Pipeline(Quantize(4)))
NESTEROV = (0.7, 0.9)
SPARSE = {"update": ErrorFeedback(Pipeline(TopK(0.02), LloydMax(2), ContextEntropy()), decay=0.95)}
SPARSELY = {"codecs": SPARSE, "exchange": AllGather()}
ALONE = {"method": "ddp", "exchange": AllGather(), "workers": 1}
MUON = {"optimizer": "Muon", "codecs": TWO_BITS}
SIGNS = both(Pipeline(Sign()))
RANK_4 = both(Pipeline(PowerSGD(4), Quantize(8)))
BY_ENTROPY = EntropySchedule(4, 0.07, 8)
# by the entropies of a pilot run, as experiments/language/entropies.py prints them; their mean is 4
PILOT = (8, 8, 8, 8, 8, 8, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1, 4, 7)
IN_A_LINE = tuple(round(7 - 6 * window / 19) for window in range(20))
EIGHT_BITS = {"update": Pipeline(Quantize(8)), "model": Pipeline(Quantize(8))}
SIXTEEN_BITS = {"update": Pipeline(BFloat16()), "model": Pipeline(BFloat16())}
COSINES = {"update": Pipeline(TopK(1 / 32, scope="tensor"), Half(), ContextEntropy())}
FOUR_BIT_FLOATS = {"update": Pipeline(Float8(3, 0))}


def settings(task: Task) -> list[Setting]:
    """All settings, in the order of the tables."""
    parts = (_methods(), _nulls(task), _by_role(), _ablations(), _no_server(), _longer())
    return [setting for part in (*parts, _longest()) for setting in part]


def _methods() -> Iterator[Setting]:
    yield Setting("AdamW, every step, float32", "ddp")
    yield Setting("Muon, every step, float32", "ddp", "Muon")
    yield Setting("AdamW, every step, float32, half the rate", "ddp", lr=6e-3)
    for steps in (5, 10):
        yield Setting(f"Muon, H = {steps}, 2 bits", inner_steps=steps, **MUON)
    ten: dict[str, Any] = {"inner_steps": 10}
    yield Setting("local AdamW, H = 10, mean, 4 bits", codecs=FOUR_BITS, **ten)
    claim = "500 times less (H = 500)"
    yield Setting("DiLoCo, H = 10, float32", outer=NESTEROV, claim=claim, **ten)
    claim = "1 to 3 % of the values, in 2 bits"
    yield Setting("SparseLoCo, H = 10, top 2 %, 2 bits", claim=claim, **SPARSELY, **ten)
    yield Setting(
        "Streaming DiLoCo, 2 x 5 steps, 4-bit floats",
        "streaming",
        inner_steps=5,
        codecs=FOUR_BIT_FLOATS,
        exchange=AllGather(),
        outer=NESTEROV,
        claim="two orders of magnitude less bandwidth",
    )
    claim = "10 to 100 times fewer rounds"
    yield Setting("FedAvg, local SGD, H = 10, float32", optimizer="SGD", claim=claim, **ten)
    yield Setting("signs, every step, AdamW", "ddp", codecs=SIGNS, claim="32 times (1 bit of 32)")
    claim = "8 times less than DiLoCo with AdamW"
    yield Setting("MuLoCo, H = 10, 2 bits", outer=NESTEROV, claim=claim, **MUON, **ten)
    yield Setting("PowerSGD, rank 4, 8 bits, AdamW", "ddp", codecs=RANK_4)
    yield Setting("AdamW, every step, 4 bits", "ddp", codecs=FOUR_BITS)
    yield Setting(
        "DeMo, 1 of 32 cosines",
        "demo",
        "SGD",
        codecs=COSINES,
        exchange=AllGather(),
        lr=2e-3,
        claim="several orders of magnitude",
    )
    yield Setting("local AdamW, H = 10, mean, float32", **ten)
    yield Setting("Muon, H = 20, 2 bits", inner_steps=20, **MUON)
    yield Setting("Muon, H = 10, top 2 %, 2 bits", optimizer="Muon", **SPARSELY, **ten)
    yield Setting("AdamW, every step, float32, ring", "ddp", exchange=Ring())
    yield Setting("SGD, every step, float32", "ddp", "SGD")


def _nulls(task: Task) -> Iterator[Setting]:
    null = {"group": "null models", **ALONE}
    for worker in range(task.workers):
        name = f"worker {worker + 1} alone" if worker else "one worker alone"
        for optimizer in ("AdamW", "Muon"):
            yield Setting(f"{optimizer}, {name}", optimizer=optimizer, worker=worker, **null)
    short = {"codecs": FOUR_BITS, "steps": 60, "group": "null models"}
    yield Setting("AdamW, every step, 4 bits, 60 steps", "ddp", **short)
    yield Setting("AdamW, all tokens on one worker", lr=4e-3, whole_text=True, steps=2400, **null)


def _by_role() -> Iterator[Setting]:
    role: dict[str, Any] = {"by_role": True, "group": "by speaking role"}
    four = {"inner_steps": 10, "codecs": FOUR_BITS}
    yield Setting("AdamW, every step, float32, by role", "ddp", **role)
    yield Setting("local AdamW, H = 10, mean, 4 bits, by role", **four, **role)
    yield Setting("Muon, H = 5, 2 bits, by role", inner_steps=5, **MUON, **role)
    yield Setting("Muon, every step, float32, by role", "ddp", "Muon", **role)


def _ablations() -> Iterator[Setting]:
    """What costs how much: steps between messages, bits per value; a baseline of 16 bits."""
    group: dict[str, Any] = {"group": "ablations"}
    yield Setting("Muon, H = 10, float32", optimizer="Muon", inner_steps=10, **group)
    yield Setting("Muon, every step, 2 bits", "ddp", **MUON, **group)
    yield Setting("AdamW, every step, bfloat16", "ddp", codecs=SIXTEEN_BITS, **group)
    claim = "up to 7 times less, no loss of accuracy"
    ef21: dict[str, Any] = {"method": "ef21_muon", "optimizer": "Muon", **group}
    yield Setting("EF21-Muon, every step, 2 bits", codecs=CHANGES, claim=claim, **ef21)
    yield Setting("EF21-Muon, every step, float32", seeds=FRESH_SEEDS[:3], **ef21)
    restarted = "MuLoCo, H = 10, 2 bits, momentum begun anew after 5 rounds"
    claim = "a wider range of outer rates and momenta is stable"
    ten: dict[str, Any] = {"inner_steps": 10, "seeds": FRESH_SEEDS[:3], **MUON, **group}
    yield Setting(restarted, outer=(*NESTEROV, 5), claim=claim, **ten)
    averaged = "Muon, H = 10, 2 bits, moving average outside"
    claim = "8.7 to 10 % fewer steps than AdamW"
    yield Setting(averaged, outer=(1.0, 0.5, 0, 0.9), claim=claim, **ten)
    schedules = {
        "rank by entropy": BY_ENTROPY,
        "ranks by a pilot's entropy": FixedSchedule(PILOT),
        "the pilot's ranks backwards": FixedSchedule(PILOT[::-1]),
        "ranks falling from 7 to 1": FixedSchedule(IN_A_LINE),
    }
    for name, codec in schedules.items():
        codecs = {"update": codec, "model": codec}
        yield Setting(f"PowerSGD, {name}, 8 bits", "ddp", codecs=codecs, **group)


def _no_server() -> Iterator[Setting]:
    """Workers whose weights differ between messages, and optimizers whose moments are averaged."""
    group: dict[str, Any] = {"group": "no server, and moments"}
    ten = {"inner_steps": 10, **group}
    claim = "significantly less communication overhead than DiLoCo"
    yield Setting("NoLoCo, H = 10, pairs, float32", "noloco", claim=claim, **ten)
    for name, first, second, claim in (
        (
            "DES-LOC, H = 10, moments every 30 and 60",
            3,
            6,
            "170x less than DDP, 2x less than Local Adam",
        ),
        ("Local Adam, H = 10, moments every 10", 1, 1, ""),
    ):
        moments = {"moments": {"exp_avg": first, "exp_avg_sq": second}}
        yield Setting(f"{name}, float32", options=moments, claim=claim, **ten)
    for fraction, words in ((0.005, "0.5 %"), (0.1, "10 %")):
        name = f"SPARTA, {words} of the values at every step, float32"
        yield Setting(name, "sparta", options={"fraction": fraction}, **group)
    eight = {"codecs": EIGHT_BITS, "options": {"rank": 4}}
    yield Setting("Dion, rank 4, 8 bits", "dion", "Muon", **eight, **group)


def _longer() -> Iterator[Setting]:
    """Those of the front, for `LONGER` steps, with the learning rates of the shorter runs."""
    longer: dict[str, Any] = {"steps": LONGER, "group": f"{LONGER:,} steps"}
    end = f", {LONGER:,} steps"
    yield Setting(f"Muon, every step, float32{end}", "ddp", "Muon", **longer)
    yield Setting(f"Muon, H = 10, 2 bits{end}", inner_steps=10, **MUON, **longer)
    yield Setting(f"AdamW, every step, float32{end}", "ddp", **longer)
    yield Setting(f"Muon, H = 5, 2 bits{end}", inner_steps=5, **MUON, **longer)
    for optimizer in ("AdamW", "Muon"):
        name = f"{optimizer}, one worker alone{end}"
        yield Setting(name, optimizer=optimizer, **ALONE, **longer)


def _longest() -> Iterator[Setting]:
    """The way to a factor of a thousand: the longest runs, about five minutes each."""
    longest: dict[str, Any] = {"steps": LONGEST, "group": f"{LONGEST:,} steps"}
    end = f", {LONGEST:,} steps"
    ten, thirty = ({"inner_steps": steps, **longest} for steps in (10, 30))  # 30: 180 rounds
    yield Setting(f"Muon, every step, float32{end}", "ddp", "Muon", **longest)
    yield Setting(f"Muon, H = 10, top 2 %, 2 bits{end}", optimizer="Muon", **SPARSELY, **ten)
    yield Setting(f"AdamW, every step, float32{end}", "ddp", **longest)
    for share, rate in (("half", 6e-3), ("a quarter of", 3e-3)):
        name = f"AdamW, every step, float32, {share} the rate{end}"
        yield Setting(name, "ddp", lr=rate, **longest)
    for steps in (30, 65):
        yield Setting(f"Muon, H = {steps}, 2 bits{end}", inner_steps=steps, **MUON, **longest)
    yield Setting(f"Muon, one worker alone{end}", optimizer="Muon", **ALONE, **longest)
    yield Setting(f"DiLoCo, H = 30, float32{end}", outer=NESTEROV, **thirty)
    yield Setting(f"MuLoCo, H = 30, 2 bits{end}", outer=NESTEROV, **MUON, **thirty)
    yield Setting(f"SparseLoCo, H = 30, top 2 %, 2 bits{end}", **SPARSELY, **thirty)


# -------------------------------------------------------------------------------------- one run


def outer_of(
    model: torch.nn.Module, lr: float, momentum: float, every: float = 0, blend: float | None = None
) -> torch.optim.Optimizer:
    """Nesterov momentum, begun anew after ``every`` rounds if given; with ``blend`` an average."""
    if blend is not None:
        return Averaged(model.parameters(), lr, momentum, blend)
    if every:
        return Restarted(model.parameters(), lr, momentum, int(every))
    return torch.optim.SGD(model.parameters(), lr, momentum, nesterov=True)


METHODS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "ddp": ddp,
    "demo": demo,
    "dion": dion,
    "ef21_muon": ef21_muon,
    "diloco": diloco,
    "streaming": streaming_diloco,
    "noloco": noloco,
    "sparta": sparta,
}


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train once on this machine's processor and say what it cost and brought."""
    result, _ = trained(task, setting, seed)
    return result


def trained(
    task: Task, setting: Setting, seed: int, device: str = "cpu"
) -> tuple[Result, torch.nn.Sequential]:
    """What one training run cost and brought, and its model.

    ``halves`` holds the nats on the two halves of the held-out text: settings are chosen by the
    first, results can be measured on the second.

    ``uplink`` is what one counts who looks only at what workers say, once for each message: the
    way that factors are often given. ``curve`` holds [step, bytes so far, training loss] at twelve
    moments.
    """
    start, steps = time.process_time(), setting.steps or task.steps
    channel = Channel(setting.codecs)
    model = model_of(task, seed).to(device)
    workers = deal(task, seed, by_role=setting.by_role)
    if setting.workers == 1:
        x, y = text_of(task.text).windows(task.context)
        own = islice(workers.items(), setting.worker, setting.worker + 1)
        workers = {"w0": (x, y)} if setting.whole_text else dict(own)
    records, rows = _records(task, setting, steps, channel, model, workers, seed), []
    for record in records:
        rows.append([record["step"], record["nbytes"], round(record["loss"], 4)])
    every = max(1, len(rows) // 12)
    copies = len(workers) - 1 if isinstance(setting.exchange, AllGather) else 1
    up = channel.nbytes(kind="update") // copies if copies else 0
    result = {
        **{"key": setting.key(task, seed), "seed": seed, "part": setting.part},
        **{"name": setting.name, "group": setting.group, **asdict(task), "steps": steps},
        "nats": round(held_out(model, task), 4),
        "halves": [round(nats, 4) for nats in halves(model, task)],
        **{name: record[name] for name in ("nbytes", "nbytes_up", "nbytes_down")},
        "uplink": up,
        "text_sha256": text_of(task.text).sha256,
        "curve": rows[every - 1 :: every],
        "seconds": round(time.process_time() - start, 1),
    }
    return result, model


def deal(task: Task, seed: int, *, by_role: bool) -> dict[str, tuple[Tensor, Tensor]]:
    """Windows of each worker: at random, or those of whole speakers, dealt out by their length."""
    text, names = text_of(task.text), [f"w{k}" for k in range(task.workers)]
    if not by_role:
        x, y = text.windows(task.context)
        parts = partition_iid(torch.zeros(len(x), dtype=torch.long), task.workers, seed=seed)
        return {name: (x[part], y[part]) for name, part in zip(names, parts, strict=True)}
    speakers = sorted(text.roles(task.context).values(), key=lambda xy: -len(xy[0]))
    own: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}
    for windows in speakers:  # the next largest to who has least
        least = min(names, key=lambda name: sum(len(x) for x, _ in own[name]))
        own[least].append(windows)
    return {
        name: (torch.cat([x for x, _ in each]), torch.cat([y for _, y in each]))
        for name, each in own.items()
    }


def _records(
    task: Task,
    setting: Setting,
    steps: int,
    channel: Channel,
    model: torch.nn.Sequential,
    workers: Mapping[str, tuple[Tensor, Tensor]],
    seed: int,
) -> Iterator[dict[str, Any]]:
    make: dict[str, Any] = {
        "AdamW": partial(torch.optim.AdamW, lr=setting.rate, betas=(0.9, 0.95)),
        "SGD": partial(torch.optim.SGD, lr=setting.rate),
    }
    momentum = {"momentum": None} if setting.method in ("dion", "ef21_muon") else {}  # their own
    muon = partial(muon_for, model, lr=setting.rate, **momentum)
    optimizer = make[setting.optimizer] if setting.optimizer in make else muon()
    local = Local(
        task.batch_size,
        optimizer=optimizer,
        steps=setting.inner_steps,
        schedule=Cosine(steps),
        clip_norm=None if setting.method in ("demo", "dion", "ef21_muon") else 1.0,
        keep_state=True,
    )
    how: dict[str, Any] = {"local": local, "seed": seed, **setting.options}
    if setting.method in ("ddp", "demo", "dion", "ef21_muon"):
        how["steps"] = steps
    else:
        how["rounds"] = steps // setting.inner_steps
    if setting.method not in ("demo", "noloco", "ef21_muon"):
        how["exchange"] = setting.exchange
    train = METHODS[setting.method]
    if "moments" in setting.options:
        train = des_loc  # it has no outer optimizer
    elif setting.method in ("diloco", "streaming"):
        how["outer"] = None
        if setting.outer:
            how["outer"] = outer_of(model, *setting.outer)
    yield from train(model, Fleet(workers), channel, **how)
