"""Ten million parameters: the methods of data_parallel.py on a model a hundred times larger.

    python -m experiments.language.large --choose --device cuda --jobs 16  # learning rates
    python -m experiments.language.large --device cuda --jobs 16           # the rows of the table
    python -m experiments.language.large --sizes                           # the bytes of the texts
    python -m experiments.language.large --report                          # print the tables
    python -m experiments.language.large --write                           # into the page

A GPT of 6 layers and width 384, four workers. Every method gets three trials for its learning rate,
with a seed that no row uses and the steps of `TRIAL_STEPS`. The choice is made on the first half of
the held-out text, and results are given on the second half. Each finished run is a line of JSON and
is not run again. Not here: the training run (data_parallel.py).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

import torch

from experiments.language.command import PAGE, marks
from experiments.language.data_parallel import NESTEROV, SPARSE, TWO_BITS, Setting, trained
from experiments.language.task import Task, python_sources, text_of
from experiments.runs import (
    Result,
    Runs,
    add,
    gain_of,
    mean_nbytes,
    nats_above,
    read,
    sweep,
    write_between,
)
from fltoolkit import Channel
from fltoolkit.data import Text
from fltoolkit.federated import AllGather
from fltoolkit.pooled import lossless
from fltoolkit.research import mean_ci

RESULTS = Path(__file__).parents[1] / "results" / "language_large.jsonl"
PART = "large"
SIZE = Task(text="python", context=256, layers=6, width=384, batch_size=16, steps=450)
TASKS = {"python": SIZE, "shakespeare": replace(SIZE, text="shakespeare", steps=600)}
TRIAL_STEPS = {"python": 150, "shakespeare": 600}
CHOOSING_SEED = 9
SEEDS = (10, 11, 12)
REFERENCE = "AdamW, every step, float32"


@dataclass(frozen=True)
class Row:
    """A method and the learning rates that are tried for it."""

    setting: Setting
    rates: tuple[float, ...]


ADAMW, INNER_ADAMW, MUON = (1e-3, 2e-3, 4e-3), (5e-4, 1e-3, 2e-3), (0.01, 0.02, 0.04)


def rows(task: Task) -> Iterator[Row]:
    """The methods, in the order of the table."""

    def row(name: str, rates: tuple[float, ...], *args: object, **kwargs: object) -> Row:
        return Row(Setting(name, *args, part=PART, seeds=SEEDS, **kwargs), rates)  # type: ignore[arg-type]

    muon: dict[str, object] = {"optimizer": "Muon"}
    yield row(REFERENCE, ADAMW, "ddp")
    yield row("Muon, every step, float32", MUON, "ddp", **muon)
    yield row("Muon, H = 30, 2 bits", MUON, inner_steps=30, codecs=TWO_BITS, **muon)
    yield row(
        "MuLoCo, H = 30, 2 bits", MUON, inner_steps=30, outer=NESTEROV, codecs=TWO_BITS, **muon
    )
    sparse: dict[str, object] = {"codecs": SPARSE, "exchange": AllGather()}
    yield row("SparseLoCo, H = 30, top 2 %, 2 bits", ADAMW, inner_steps=30, **sparse)
    yield row("Muon, H = 30, float32", MUON, inner_steps=30, **muon)
    yield row("local AdamW, H = 30, float32", ADAMW, inner_steps=30)
    yield row("DiLoCo, H = 30, float32", INNER_ADAMW, inner_steps=30, outer=NESTEROV)
    alone: dict[str, object] = {"exchange": AllGather(), "workers": 1}
    yield row("AdamW, one worker alone", ADAMW, "ddp", **alone)
    yield row("Muon, one worker alone", MUON, "ddp", **muon, **alone)
    yield row("Muon, all text on one worker", MUON, "ddp", whole_text=True, **muon, **alone)


def shorter(task: Task) -> Task:
    """The task of the trials."""
    return replace(task, steps=TRIAL_STEPS.get(task.text, task.steps))


def trials(task: Task) -> list[Setting]:
    """Every method with each of its learning rates."""
    return [replace(row.setting, lr=rate) for row in rows(task) for rate in row.rates]


def chosen(task: Task, stored: Mapping[str, Result]) -> list[Setting]:
    """Every method with the rate whose trial did best on the validation half, if all were run."""
    settings = []
    for row in rows(task):
        each = [replace(row.setting, lr=rate) for rate in row.rates]
        found = [stored.get(setting.key(shorter(task), CHOOSING_SEED)) for setting in each]
        results = [result["nats_validation"] for result in found if result]
        if len(results) == len(each):
            settings.append(each[results.index(min(results))])
    return settings


def run(task: Task, setting: Setting, seed: int, device: str = "cpu") -> Result:
    """Train once; ``nats_validation`` and ``nats`` are of the halves of the held-out text.

    One worker with all of the text takes batches as large as those of all workers together.
    """
    torch.set_float32_matmul_precision("high")
    larger = (
        replace(task, batch_size=task.batch_size * task.workers) if setting.whole_text else task
    )
    result, _ = trained(larger, setting, seed, device)
    result |= {"key": setting.key(task, seed), "lr": setting.rate, "batch_size": task.batch_size}
    result["nats_validation"], result["nats"] = result["halves"]
    where = torch.cuda.get_device_name() if device == "cuda" else device
    return {**result, "device": where, "torch": torch.__version__}


def sizes(task: Task, text: Text) -> Result:
    """Bytes of the training text without loss, and what sending it to one worker takes.

    Each worker but the first sends its own part of the text, in one message.
    """
    channel, part = Channel({"samples": lossless()}), -(-len(text.train) // task.workers)
    for number, own in enumerate(text.train.to(torch.uint8).split(part)):
        sender = f"w{number}" if number else "of the first worker"
        channel.send(sender, "w0", "samples", {"text": own})
    own_nbytes = channel.nbytes(sender="of the first worker")
    result = {"key": f"text {task.text}", "nbytes_text": channel.nbytes()}
    return result | {"nbytes": channel.nbytes() - own_nbytes, "text_sha256": text.sha256}


def told(result: Result) -> str:
    """Nats and bytes in one line."""
    return f"lr {result['lr']:g} {result['nats']:.3f} nats {result['nbytes'] / 1e6:10.2f} MB"


def report(stored: Mapping[str, Result]) -> str:
    """A table for each text."""
    blocks = []
    for text, task in TASKS.items():
        settings = chosen(task, stored)
        found = [
            (s, {n: stored[s.key(task, n)] for n in s.seeds if s.key(task, n) in stored})
            for s in settings
        ]
        found = [(setting, runs) for setting, runs in found if runs]
        if found:
            blocks += [
                f"### Ten million parameters, {text}",
                _table(task, found, stored[f"text {text}"]),
            ]
        if tried := _trials(task, stored):
            blocks += [f"### Trials of learning rates, {text}", tried]
    return "\n\n".join(blocks) or "no runs yet"


def _table(task: Task, found: Sequence[tuple[Setting, Runs]], size: Result) -> str:
    reference = next((runs for setting, runs in found if setting.name == REFERENCE), {})
    text = size["nbytes_text"]
    first = next(iter(found[0][1].values()))
    lines = [
        f"{task.workers} workers x batch {task.batch_size} x {task.context} characters, "
        f"{task.steps} steps, a GPT of {task.layers} layers of width {task.width}, "
        f"{first['device']}, torch {first['torch']}. The training text takes {text / 1e6:.3f} MB "
        "without loss. Intervals: 95 %, by Student's t over the seeds, paired by seed.",
        "",
        "| method | learning rate | seeds | nats per character | minus AdamW | MB in all "
        "| MB up / down / to each other | times fewer | times the text |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for setting, runs in found:
        sent = size["nbytes"] if setting.whole_text else mean_nbytes(runs)
        up, down = (
            size["nbytes"] * (key == "nbytes_up")
            if setting.whole_text
            else mean(result[key] for result in runs.values())
            for key in ("nbytes_up", "nbytes_down")
        )
        fewer = f"{mean_nbytes(reference) / sent:,.1f}" if sent and reference else ""
        lines.append(
            f"| {setting.name} | {setting.rate:g} | {len(runs)} "
            f"| {mean_ci([result['nats'] for result in runs.values()], '.3f')} "
            f"| {gain_of(runs, reference, '+.3f', 'nats', 1)} | {sent / 1e6:,.1f} "
            f"| {' / '.join(f'{each / 1e6:,.1f}' for each in (up, down, sent - up - down))} "
            f"| {fewer} | {times_of(sent / text) if sent else 'nothing is sent'} |"
        )
    return "\n".join([*lines, "", *_pairs({s.name: runs for s, runs in found})])


def times_of(factor: float) -> str:
    """Three digits of it are known.

    >>> times_of(131505.4), times_of(35.52)
    ('132,000', '35.5')
    """
    return f"{float(f'{factor:.3g}'):,g}"


ALONE = "Muon, one worker alone"
PAIRS = (
    *(
        (ALONE, f"{name}")
        for name in (
            "MuLoCo, H = 30, 2 bits",
            "SparseLoCo, H = 30, top 2 %, 2 bits",
            "DiLoCo, H = 30, float32",
        )
    ),
    (ALONE, REFERENCE),
    ("Muon, H = 30, float32", "Muon, every step, float32"),
    ("Muon, H = 30, 2 bits", "Muon, H = 30, float32"),
)


def _pairs(runs: Mapping[str, Runs]) -> Iterator[str]:
    """Rows that the page compares, paired by seed."""
    yield "| this | in place of this | seeds in common | difference [nats] |"
    yield "|---|---|---|---|"
    for this, other in PAIRS:
        if found := nats_above(runs.get(this, {}), runs.get(other, {})):
            yield f"| {this} | {other} | {len(found)} | {mean_ci(found, '+.3f')} |"


def _trials(task: Task, stored: Mapping[str, Result]) -> str:
    short = shorter(task)
    keys = [setting.key(short, CHOOSING_SEED) for setting in trials(task)]
    found = [stored[key] for key in keys if key in stored]
    lines = [
        f"One seed, {short.steps} steps. The training loss is that of the last step.",
        "",
        "| method | learning rate | training loss | validation half | test half |",
        "|---|---|---|---|---|",
        *(
            f"| {result['name']} | {result['lr']:g} | {result['curve'][-1][2]:.3f} "
            f"| {result['nats_validation']:.3f} | {result['nats']:.3f} |"
            for result in found
        ),
    ]
    return "\n".join(lines) if found else ""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.language.large")
    parser.add_argument("--choose", action="store_true", help="the runs that choose learning rates")
    parser.add_argument("--text", choices=TASKS, help="only this text")
    parser.add_argument("--only", default="", help="settings whose name holds this")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one torch thread each")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--sizes", action="store_true", help="measure the bytes of the texts")
    parser.add_argument("--folder", type=Path, help="of another Python, for --sizes")
    parser.add_argument("--report", action="store_true", help="print the tables")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        print(report(read(args.out)))
        return
    if args.write:
        write_between(PAGE, *marks("large"), report(read(args.out)))
        return
    if args.sizes:
        for name, task in TASKS.items():
            text = python_sources(folder=args.folder) if name == "python" else text_of(name)
            add(args.out, sizes(task, text))
        return
    jobs = []
    for name, task in TASKS.items():
        if args.text not in (None, name):
            continue
        settings = trials(task) if args.choose else chosen(task, read(args.out))
        seeds, task = ([CHOOSING_SEED], shorter(task)) if args.choose else (args.seeds, task)
        jobs += [(task, s, seed) for s in settings for seed in seeds if args.only in s.name]
    train = partial(run, device=args.device)
    sweep(train, jobs, args.out, workers=args.jobs, told=told)


if __name__ == "__main__":
    main()
