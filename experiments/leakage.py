"""What leaks at the cut, and at which price in bytes and accuracy does it leak less?

    python -m experiments.leakage                  # digits, 3 seeds; goes on where it was
    python -m experiments.leakage --data mnist     # the same on a subset: 10,000 images
    python -m experiments.leakage --only NoPeek    # settings whose table or name holds this
    python -m experiments.leakage --report         # tables and figures from what is there

Here: the settings, one training run with the attacks after it, the sweep. Each finished run is one
line of JSON in ``--out`` and is not run again; Ctrl-C loses only the run in progress.
Not here: tables and figures (leakage_report.py). What came out: docs/leakage.md.
"""

import argparse
import base64
import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from experiments.async_states import read
from fltoolkit import (
    SGD,
    Batches,
    Channel,
    Codec,
    Party,
    Pipeline,
    evaluate,
    load,
    predict,
    splitnn_mlp,
)
from fltoolkit.codecs import Float8, Quantize, RandTopK, Rotate, TopK
from fltoolkit.data import Dataset
from fltoolkit.leakage import (
    Listener,
    Noise,
    NoPeek,
    auc,
    corrected_distance_correlation,
    direction_aucs,
    distance_correlation,
    explained_variance,
    norm_aucs,
    overhear,
    train_decoder,
)
from fltoolkit.split import train_split

RESULTS = Path(__file__).parent / "results" / "leakage.jsonl"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
POSITIVE = 8  # the rare class of the binary task: this digit against the nine others
NUM_SHOWN = 10  # reconstructions that are kept for the figure, one of each digit

Result = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Who has what, and how the network is trained. The three kinds of samples are disjoint."""

    data: str
    num_own: int  # training samples, Alice's
    num_auxiliary: int  # the attacker's
    num_victims: int  # of the test samples: whom the attacker reconstructs
    epochs: int
    batch_size: int
    lr: float
    attack_epochs: int  # of the attacker's network, at most
    seeds: tuple[int, ...]


TASKS = {
    "digits": Task("digits", 719, 718, 360, 60, 32, 0.06, 100, (0, 1, 2)),
    "mnist": Task("mnist", 10_000, 5_000, 1_000, 10, 64, 0.06, 25, (0, 1, 2)),
}


@dataclass(frozen=True)
class Setting:
    """How activations and gradients travel, and what Alice does about leakage."""

    part: str  # the table it belongs to
    name: str
    up: Codec | None = None
    down: Codec | None = None
    nopeek: float = 0.0
    binary: bool = False
    in_use: Codec | None = None  # on the activations after training, where it is another than `up`

    @property
    def codecs(self) -> dict[str, Codec]:
        pairs = {"activations": self.up, "gradients": self.down}
        return {kind: codec for kind, codec in pairs.items() if codec is not None}

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called: so a rerun knows what is there."""
        what = {name: value for name, value in asdict(task).items() if name != "seeds"}
        what |= {"seed": seed, "nopeek": self.nopeek, "binary": self.binary}
        what |= {kind: repr(codec) for kind, codec in self.codecs.items()}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


# ------------------------------------------------------------------------------------ settings

UP, DEFENCES, DOWN, BINARY = (
    "codecs on the activations",
    "defences",
    "codecs and noise on the gradients",
    f"the same where one label is rare: {POSITIVE} against the others",
)


def settings() -> list[Setting]:
    """All settings, in the order of the tables."""
    return [*activations(), *defences(), *gradients(DOWN), *gradients(BINARY)]


def activations() -> Iterator[Setting]:
    """Gradients travel in float32."""
    yield Setting(UP, "float32")
    yield Setting(UP, "Float8", Pipeline(Float8()))
    for bits in (8, 4, 2, 1):
        yield Setting(UP, f"{bits} bit{'s' * (bits > 1)}", Pipeline(Quantize(bits)))
    for bits in (2, 1):
        stages = Rotate(), Quantize(bits)
        yield Setting(UP, f"rotated, {bits} bit{'s' * (bits > 1)}", Pipeline(*stages))
    for fraction in (0.1, 0.01):
        yield Setting(UP, f"top-k {fraction:.0%}", Pipeline(TopK(fraction)))
        in_use = Pipeline(RandTopK(fraction, training=False))
        name = f"RandTopK {fraction:.0%}"
        yield Setting(UP, name, Pipeline(RandTopK(fraction)), in_use=in_use)


def defences() -> Iterator[Setting]:
    """Noise in use as in training; gradients in float32."""
    for sigma in (0.25, 0.5, 1.0, 2.0, 4.0):
        yield Setting(DEFENCES, f"noise {sigma:g}", Pipeline(Noise(sigma)))
    for weight in (0.1, 1.0, 3.0, 10.0):
        yield Setting(DEFENCES, f"NoPeek {weight:g}", nopeek=weight)
    yield Setting(DEFENCES, "NoPeek 3, 4 bits", Pipeline(Quantize(4)), nopeek=3.0)
    yield Setting(DEFENCES, "NoPeek 3, 2 bits", Pipeline(Quantize(2)), nopeek=3.0)
    yield Setting(DEFENCES, "NoPeek 3, noise 0.5", Pipeline(Noise(0.5)), nopeek=3.0)


def gradients(part: str) -> Iterator[Setting]:
    """Activations travel in float32."""
    down: dict[str, Codec | None] = {
        "float32": None,
        "8 bits": Pipeline(Quantize(8, stochastic=True)),
        "4 bits": Pipeline(Quantize(4, stochastic=True)),
        "top-k 10%": Pipeline(TopK(0.1)),
        "top-k 1%": Pipeline(TopK(0.01)),
        "noise 0.001": Pipeline(Noise(0.001)),
        "noise 0.01": Pipeline(Noise(0.01)),
    }
    for name, codec in down.items():
        yield Setting(part, name, down=codec, binary=part == BINARY)


# ----------------------------------------------------------------------------------- one run


@lru_cache(maxsize=1)
def dataset(name: str) -> Dataset:
    return load(name).flat()


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train once through a listened-to channel, then attack; all that the tables need.

    A run that diverges ends there, with ``diverged`` (the step) in place of results.
    """
    start, data = time.perf_counter(), dataset(task.data)
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(seed))
    own, auxiliary = order[: task.num_own], order[task.num_own :][: task.num_auxiliary]
    labels, test_labels = data.y_train[own], data.y_test
    if setting.binary:
        labels, test_labels = (labels == POSITIVE).long(), (test_labels == POSITIVE).long()
    num_classes = 2 if setting.binary else data.num_classes
    model = splitnn_mlp(data.x_train.shape[1], num_classes, seed=seed)
    bottom, top = model[:4], model[4:]
    alice = NoPeek("alice", bottom, SGD(bottom.parameters(), lr=task.lr), weight=setting.nopeek)
    bob = Party("bob", top, SGD(top.parameters(), lr=task.lr), nn.NLLLoss())

    batches = Batches(data.x_train[own], labels, task.batch_size, seed=seed)
    channel = Listener(setting.codecs, kinds=["gradients"])
    about = {
        **{"key": setting.key(task, seed), "data": task.data, "part": setting.part},
        **{"name": setting.name, "seed": seed},
    }
    by_epoch = []
    for epoch in range(task.epochs):
        seen = list(batches.epoch(epoch))
        try:
            for _ in train_split([alice, bob], seen, channel):
                pass
        except (ValueError, FloatingPointError) as error:  # of a codec; of a party
            if "diverged" not in str(error):
                raise
            return about | {"diverged": channel.step, "seconds": _since(start)}
        by_epoch.append(_label_aucs(channel, torch.cat([y for _, y in seen]), setting.binary))
    sent = task.epochs * task.num_own

    x, victims = data.x_train[auxiliary], data.x_test[: task.num_victims]
    attack = Channel(setting.codecs)
    heard, held_out = overhear(alice, x, attack), overhear(alice, victims, attack)
    decoder = train_decoder(heard.h, x, seed=seed, max_epochs=task.attack_epochs)
    guess = decoder(held_out.h)
    positions = None
    if not bool(held_out.mask.all()):
        only = train_decoder(heard.mask, x, seed=seed, max_epochs=task.attack_epochs)
        positions = explained_variance(only(held_out.mask), victims, only.mean_input)
    result = {
        **about,
        **evaluate([alice, bob], data.x_test, test_labels, through=setting.in_use or setting.up),
        "nbytes_up": channel.nbytes(kind="activations") / sent,
        "nbytes_down": channel.nbytes(kind="gradients") / sent,
        "dcor": distance_correlation(held_out.h, victims),
        "corrected_dcor": corrected_distance_correlation(held_out.h, victims),
        "explained_variance": explained_variance(guess, victims, decoder.mean_input),
        "positions": positions,
        "norm_auc": [round(norm, 4) for norm, _ in by_epoch],
        "direction_auc": [round(direction, 4) for _, direction in by_epoch],
    }
    if setting.binary:
        scores = predict([alice, bob], data.x_test, through=setting.up)
        result["task_auc"] = auc(scores[:, 1], test_labels == 1)
    if seed == 0 and not setting.binary:
        shown = torch.tensor([int((data.y_test == digit).nonzero()[0]) for digit in range(10)])
        result["shown"] = _picture(guess[shown], victims)
        result["originals"] = _picture(victims[shown], victims)
    return result | {"seconds": _since(start)}


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 1)


def _label_aucs(channel: Listener, y: Tensor, binary: bool) -> tuple[float, float]:
    """How well length and direction of the gradients heard since last time give labels away.

    In the binary task that of the rare class; else the mean over classes, the lengths' either way
    round (0.5 is chance for both).
    """
    g = torch.cat([heard.tree["g"] * len(heard.tree["g"]) for heard in channel.heard])
    channel.heard.clear()
    norms, directions = norm_aucs(g, y), direction_aucs(g, y)
    if binary:
        return norms[1], directions[1]
    return mean(max(a, 1 - a) for a in norms.values()), mean(directions.values())


def _picture(x: Tensor, scale: Tensor) -> str:
    """Pixels as bytes, 0 the least and 255 the largest of ``scale``."""
    lo, hi = scale.min(), scale.max()
    pixels = ((x - lo) / (hi - lo) * 255).clamp(0, 255).round().byte()
    return base64.b64encode(pixels.numpy().tobytes()).decode()


# ------------------------------------------------------------------------------------- sweep

Job = tuple[Task, Setting, int]


def sweep(jobs: Iterable[Job], path: Path) -> None:
    """Run what is not in the file yet, and add a line for each run as soon as it is finished."""
    there = read(path)
    todo = {setting.key(task, seed): (task, setting, seed) for task, setting, seed in jobs}
    todo = {key: job for key, job in todo.items() if key not in there}
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} runs to do, {len(there)} in {path}", flush=True)
    for number, (task, setting, seed) in enumerate(todo.values(), 1):
        result = run(task, setting, seed)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        said = f"diverged at step {result['diverged']}" if "diverged" in result else told(result)
        print(
            f"{number:4d}/{len(todo)} {task.data} {setting.name:20s} seed {seed} {said} "
            f"{result['seconds']:6.1f} s",
            flush=True,
        )


def told(result: Result) -> str:
    """The main results in one line."""
    return (
        f"{100 * result['accuracy']:6.2f} % {result['nbytes_up']:7.1f} B up, explained "
        f"variance {result['explained_variance']:.3f}"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=TASKS, default="digits")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of the task's own")
    parser.add_argument("--only", default="", help="settings whose table or name holds this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--images", type=Path, default=IMAGES, help="folder of the figures")
    parser.add_argument("--report", action="store_true", help="print tables, draw the figures")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        from experiments.leakage_report import draw, report

        results = read(args.out)
        print(report(results))
        draw(results, args.images)
        return
    task = TASKS[args.data]
    chosen = [s for s in settings() if args.only in f"{s.part}: {s.name}"]
    jobs = [(task, s, seed) for seed in args.seeds or task.seeds for s in chosen]
    try:
        sweep(jobs, args.out)
    except KeyboardInterrupt:
        print("stopped: what is finished is kept, run again to go on")


if __name__ == "__main__":
    main()
