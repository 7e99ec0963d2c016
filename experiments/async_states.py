"""Accuracy against real bytes when the client may fall silent: which gate, at which price?

    python -m experiments.async_states                 # MNIST, all settings; goes on where it was
    python -m experiments.async_states --only freeze   # settings whose name or part holds this
    python -m experiments.async_states --report        # tables and figure from what is there
    python -m experiments.async_states --data digits --epochs 5 --out runs/digits.jsonl
    python -m experiments.async_states --data cifar10  # VGG-11, on a GPU if there is one

Here: the settings, one training run, the sweep. Each finished run is one line of JSON in ``--out``
and is not run again; Ctrl-C loses only the runs in progress.
Not here: tables and figure (report.py, next). What came out: docs/async_states.md.
"""

import argparse
import copy
import hashlib
import json
import multiprocessing
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fltoolkit import SGD, Batches, Channel, Codec, Party, Pipeline, evaluate, load, splitnn_mlp
from fltoolkit.codecs import Entropy, Float8, Only, Quantize, TopK
from fltoolkit.data import Dataset, partition_iid
from fltoolkit.models import seeded
from fltoolkit.split import (
    ActivationCache,
    AlwaysA,
    BangBang,
    BudgetGate,
    FreezeAfter,
    Gate,
    LogSpaced,
    LossGate,
    Periodic,
    Upload,
    train_async,
    train_async_relay,
)

RESULTS = Path(__file__).parent / "results" / "async_states.jsonl"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "async_states.png"
BATCH_SIZE, NUM_CLIENTS = 64, 10
LR = {"mlp": 0.03, "vgg11": 0.01}  # at 0.02 and more VGG-11 diverges in its first steps
SEEDS, MORE_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4)
FRESH_SEEDS = (5, 6, 7)  # no setting was chosen by looking at these
SIZES = {"digits": (1437, 64), "mnist": (60_000, 784), "cifar10": (50_000, 3072)}  # samples, pixels
CUTS = {"mlp": 640, "vgg11": 128 * 8 * 8}  # activations a sample
MODELS = {"digits": "mlp", "mnist": "mlp", "cifar10": "vgg11"}  # unless told otherwise

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What is learned, how long, by how many clients where there are several."""

    data: str = "mnist"
    model: str = "mlp"
    epochs: int = 15
    clients: int = NUM_CLIENTS

    @property
    def num_steps(self) -> int:
        """Of a run with one client."""
        return self.epochs * -(-SIZES[self.data][0] // BATCH_SIZE)

    @property
    def dense_nbytes(self) -> int:
        """What vanilla's activations and gradients take in float32, without headers."""
        return self.epochs * SIZES[self.data][0] * CUTS[self.model] * 8


@dataclass(frozen=True)
class Setting:
    """One way to train: who speaks when (the gate), and how what is said is coded."""

    part: str  # the table it belongs to
    family: str  # the line it belongs to
    name: str
    gate: Gate
    codecs: Mapping[str, Codec] = field(default_factory=dict)
    upload: Upload = field(default_factory=Upload)
    clients: int = 1
    seeds: tuple[int, ...] = SEEDS

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called: so a rerun knows what is there."""
        what = {**asdict(task), "clients": self.clients, "seed": seed, "lr": LR[task.model]}
        what |= {"batch_size": BATCH_SIZE, "gate": repr(self.gate), "upload": repr(self.upload)}
        what |= {"codecs": {kind: repr(self.codecs[kind]) for kind in sorted(self.codecs)}}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    def run(self, task: Task, seed: int, device: str) -> Result:
        """Train once; see `run`."""
        return run(task, self, seed, device=device)


# ------------------------------------------------------------------------------------ settings

FLOAT8 = {"activations": Pipeline(Float8()), "gradients": Pipeline(Float8())}
"""What the paper sends (Chen et al. 2021, arXiv 2107.09786): 8-bit floats, both ways."""

FEW_BITS = {
    "activations": Pipeline(Quantize(3), Entropy()),
    "gradients": Pipeline(TopK(0.05), Quantize(4), Entropy()),
}
"""3 bits a value up, the largest 5 % of the values in 4 bits down; both entropy-coded."""

FEWER_BITS = {
    "activations": Pipeline(Quantize(2), Entropy()),
    "gradients": Pipeline(TopK(0.02), Quantize(4), Entropy()),
}
"""2 bits a value up, of differences (``Upload(delta=True)``), and the largest 2 % down."""


def settings(task: Task) -> list[Setting]:
    """All settings, in the order of the tables."""
    parts = (whole_epochs, few_bits, equal_bytes, several_clients)
    return list(chain.from_iterable(part(task) for part in parts))


def whole_epochs(task: Task) -> Iterator[Setting]:
    """8-bit floats; a period is an epoch, as in the paper. Budgets are spent step by step."""

    def setting(
        family: str, name: str, gate: Gate, codecs: Mapping[str, Codec] = FLOAT8
    ) -> Setting:
        return Setting("8-bit floats", family, name, gate, codecs)

    yield setting("vanilla, float32", "vanilla, float32", AlwaysA(), {})
    yield setting("vanilla, 8 bits", "vanilla, 8 bits", AlwaysA())
    for threshold in (0.02, 0.05, 0.1, 0.2, 0.4):
        yield setting("loss threshold", f"loss threshold {threshold}", LossGate(threshold))
    yield setting("periodic", "periodic 8", Periodic(8))
    yield setting("freeze", "freeze after 2", FreezeAfter(2))
    yield setting("log-spaced", "log-spaced", LogSpaced())
    for factor in (100, 25):
        nbytes, steps = task.dense_nbytes // factor, task.num_steps
        gate = BudgetGate(nbytes, steps)
        yield setting("BudgetGate", f"BudgetGate, 1/{factor}", gate)
        bang = BangBang(nbytes, steps, every=25)
        yield setting("BangBang", f"BangBang, 1/{factor}", bang)


def few_bits(task: Task) -> Iterator[Setting]:
    """Strong codecs: what is left for the gates to save? On seeds that chose nothing."""
    part, nbytes, steps = "few bits", task.dense_nbytes, task.num_steps
    even = BudgetGate(nbytes // 110, steps)
    for family, name, gate, codecs, upload in (
        ("vanilla, float32", "vanilla, float32", AlwaysA(), {}, Upload()),
        (
            "few bits",
            "few bits, BudgetGate, 1/105",
            BudgetGate(nbytes // 105, steps, pace=0.5),
            FEW_BITS,
            Upload(),
        ),
        (
            "fewer bits",
            "fewer bits, differences, BudgetGate, 1/110",
            even,
            FEWER_BITS,
            Upload(delta=True),
        ),
        ("few bits", "few bits, always A", AlwaysA(), FEW_BITS, Upload()),
    ):
        yield Setting(part, family, name, gate, codecs, upload, seeds=FRESH_SEEDS)


def equal_bytes(task: Task) -> Iterator[Setting]:
    """The same codecs, about the same bytes: a gate is worth what it does with them.

    Two budgets, given by what a loss threshold spends on MNIST: with epochs as periods, and with
    periods of 100 steps. The others' periods are chosen to spend as much; for another task they
    would have to be chosen anew, so there is no such table.
    """
    if replace(task, clients=NUM_CLIENTS) != Task():
        return
    steps = task.num_steps
    large, small = 384_500_000, 41_000_000  # bytes
    for size, gates in (
        (
            "large",
            {
                "loss threshold": LossGate(0.1),
                "periodic": Periodic(5, every=782),
                "freeze": FreezeAfter(4, every=1042),
                "log-spaced": LogSpaced(every=670),
                "BudgetGate": BudgetGate(large, steps),
                "BangBang": BangBang(large, steps, every=25),
            },
        ),
        (
            "small",
            {
                "loss threshold": LossGate(0.1, every=100),
                "periodic": Periodic(43, every=24),
                "freeze": FreezeAfter(1, every=333),
                "log-spaced": LogSpaced(every=38),
                "BudgetGate": BudgetGate(small, steps),
                "BangBang": BangBang(small, steps, every=25),
            },
        ),
    ):
        for name, gate in gates.items():
            part = f"equal bytes, {size} budget"
            yield Setting(part, name, name, gate, FLOAT8, seeds=MORE_SEEDS)


def several_clients(task: Task) -> Iterator[Setting]:
    """The bottom is handed on: what does that cost, and which gate avoids it?"""
    model = {"model": Only(Pipeline(Quantize(8), Entropy()))}
    for name, gate, codecs in (
        ("vanilla, float32", AlwaysA(), {}),
        ("loss threshold 0.1, Float8", LossGate(0.1), FLOAT8),
        ("periodic 4, Float8", Periodic(4), FLOAT8),
        ("periodic 4, Float8, models in 8 bits", Periodic(4), FLOAT8 | model),
    ):
        part = f"{task.clients} clients"
        yield Setting(part, name, name, gate, codecs, clients=task.clients)


# ----------------------------------------------------------------------------------- one run


@lru_cache(maxsize=1)
def dataset(task: Task) -> Dataset:
    """The task's data; flat for the MLP."""
    data = load(task.data)
    return data.flat() if task.model == "mlp" else data


def vgg11(num_classes: int = 10, *, seed: int) -> nn.Sequential:
    """VGG-11 for 3 x 32 x 32: 8 convolutions and one linear layer, without BatchNorm and dropout.

    Configuration A of Simonyan & Zisserman 2014 (arXiv 1409.1556), with the short end that is
    usual for small images. Cut at 6: after the second pooling, 128 x 8 x 8 activations. First
    weights are He's, but small in the last layer: else the first loss is 6, and its gradients
    throw the network.
    """
    layers: list[nn.Module] = []
    with seeded(seed):
        width_in = 3
        for widths in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
            for width in widths:
                layers += [nn.Conv2d(width_in, width, 3, padding=1), nn.ReLU()]
                width_in = width
            layers.append(nn.MaxPool2d(2))
        layers += [nn.Flatten(), nn.Linear(512, num_classes), nn.LogSoftmax(dim=1)]
        for layer in layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nn.init.normal_(layers[-2].weight, std=0.01)  # type: ignore[arg-type]
    return nn.Sequential(*layers)


def parties(task: Task, data: Dataset, num_clients: int, seed: int, device: str) -> list[Party]:
    """The clients, all with the same first weights, and last the label party."""
    if task.model == "mlp":
        model, cut = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed), 4
    else:
        model, cut = vgg11(data.num_classes, seed=seed), 6
    names = ["alice"] if num_clients == 1 else [f"alice_{k}" for k in range(num_clients)]
    bottoms = {name: copy.deepcopy(model[:cut]).to(device) for name in names}
    top = model[cut:].to(device)
    lr = LR[task.model]
    clients = [Party(name, b, SGD(b.parameters(), lr=lr)) for name, b in bottoms.items()]
    return [*clients, Party("bob", top, SGD(top.parameters(), lr=lr), nn.NLLLoss())]


def run(
    task: Task, setting: Setting, seed: int, data: Dataset | None = None, device: str = "cpu"
) -> Result:
    """Train once and say what it cost and brought; ``curve`` holds [bytes, accuracy] by epoch.

    A run that diverges ends there, with ``diverged`` (the step) and the accuracy it then has.
    """
    start, data = time.perf_counter(), data or dataset(task)
    *alices, bob = parties(task, data, setting.clients, seed, device)
    channel, gate = Channel(setting.codecs), copy.deepcopy(setting.gate)
    cache = ActivationCache(len(data.y_train), seed=seed)
    batches = [Batches(data.x_train, data.y_train, BATCH_SIZE, seed=seed)]
    hold: dict[str, Any] = {"gate": gate, "upload": setting.upload, "cache": cache}
    if setting.clients == 1:
        records = train_async(alices[0], bob, batches[0], channel, num_epochs=task.epochs, **hold)
    else:
        rows = partition_iid(data.y_train, setting.clients, seed=seed)
        batches = [Batches(data.x_train[i], data.y_train[i], BATCH_SIZE, seed=seed) for i in rows]
        records = train_async_relay(alices, bob, batches, channel, num_rounds=task.epochs, **hold)
    by_name, newest = {alice.name: alice for alice in alices}, alices[0]
    steps, curve, record, score = dict.fromkeys("ABC", 0), [], {}, {}
    try:
        for record in records:
            steps[str(record["state"])] += 1
            if record["state"] == "A":  # who learned last has the bottom that counts
                newest = by_name[str(record.get("client", "alice"))]
            if channel.step % sum(map(len, batches)) == 0:
                score = evaluate([newest, bob], data.x_test, data.y_test)
                curve.append([record["nbytes"], round(float(score["accuracy"]), 4)])
    except (ValueError, FloatingPointError) as error:  # of a codec or a gate; of a party
        if "diverged" not in str(error):
            raise
        try:
            score = evaluate([newest, bob], data.x_test, data.y_test)
        except FloatingPointError:  # no number comes out, so none is right
            score = {"accuracy": 0.0}
        score["diverged"] = channel.step
    kinds = sorted({transfer.kind for transfer in channel.transfers})
    return {
        **{"key": setting.key(task, seed), "seed": seed, **asdict(task)},
        **{"clients": setting.clients, "gate": repr(setting.gate), "upload": repr(setting.upload)},
        "codecs": {kind: repr(codec) for kind, codec in setting.codecs.items()},
        **score,
        **{name: record[name] for name in ("nbytes", "nbytes_up", "nbytes_down")},
        "nbytes_of": {kind: channel.nbytes(kind=kind) for kind in kinds},
        "steps": steps,
        "curve": curve,
        **{"seconds": round(time.perf_counter() - start, 1), "device": device},
    }


# ------------------------------------------------------------------------------------- sweep


def read(path: Path) -> dict[str, Result]:
    """Finished runs by key. A last line that was cut off in writing is dropped from the file."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines[-1]:
        path.write_text("".join(line + "\n" for line in lines[:-1]), encoding="utf-8")
    return {result["key"]: result for result in map(json.loads, lines[:-1])}


Job = tuple[Any, Any, int, str]  # task, setting with `key` and `run`, seed, device


def sweep(jobs: Iterable[Job], path: Path, workers: int = 1) -> None:
    """Run what is not in the file yet, and add a line for each run as soon as it is finished."""
    there = read(path)
    todo = {
        setting.key(task, seed): (task, setting, seed, device)
        for task, setting, seed, device in jobs
    }
    todo = {key: job for key, job in todo.items() if key not in there}
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} runs to do, {len(there)} in {path}", flush=True)
    for number, result in enumerate(_results(list(todo.values()), workers), 1):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        name = todo[result["key"]][1].name
        print(
            f"{number:4d}/{len(todo)} {name:32s} seed {result['seed']:2d} "
            f"{100 * result['accuracy']:6.2f} % {result['nbytes'] / 1e6:9.2f} MB "
            f"{result['seconds']:6.1f} s",
            flush=True,
        )


def _results(jobs: list[Job], workers: int) -> Iterator[Result]:
    """Results in the order they come, from this process or from others."""
    if workers == 1:
        yield from map(_job, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(workers, _quiet) as pool:
        yield from pool.imap_unordered(_job, jobs)  # leaving the block ends the workers


def _job(job: Job) -> Result:
    torch.set_num_threads(1)
    task, setting, seed, device = job
    return setting.run(task, seed, device)


def _quiet() -> None:
    """Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=SIZES, default="mnist")
    parser.add_argument("--model", choices=CUTS, help="by default vgg11 for cifar10, else mlp")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--clients", type=int, default=NUM_CLIENTS, help="where there are several")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of each setting's own")
    parser.add_argument("--only", default="", help="settings whose table or name holds this")
    parser.add_argument("--device", help="by default cuda for vgg11 if there is one, else cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, one torch thread each")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--report", action="store_true", help="print tables, draw the figure")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = Task(args.data, args.model or MODELS[args.data], args.epochs, args.clients)
    gpu = task.model == "vgg11" and torch.cuda.is_available()
    device = args.device or ("cuda" if gpu else "cpu")
    chosen = [s for s in settings(task) if args.only in f"{s.part}: {s.name}"]
    if args.seeds is not None:
        chosen = [replace(setting, seeds=tuple(args.seeds)) for setting in chosen]
    if args.report:
        from experiments.report import draw, report, rows_of

        rows = rows_of(task, chosen, read(args.out))
        print(report(rows))
        draw(rows, args.figure)
        return
    jobs = [(task, s, seed, device) for s in chosen for seed in s.seeds]
    try:
        sweep(jobs, args.out, args.workers)
    except KeyboardInterrupt:
        print("stopped: what is finished is kept, run again to go on")


if __name__ == "__main__":
    main()
