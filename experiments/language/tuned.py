"""Learning rates chosen fairly: as many trials for each method, on text that no result is of.

    python -m experiments.language.tuned --study small --choose    # trials of learning rates
    python -m experiments.language.tuned --study small             # the rows of the table
    python -m experiments.language.tuned --study python --device cuda --jobs 16   # the same
    python -m experiments.language.tuned --report                  # print the tables
    python -m experiments.language.tuned --write                   # into the page

A study is a table: of the model of data_parallel.py, or of a GPT of 6 layers and width 384, a
hundred times larger. All methods of a study have equally many trials of their learning rate, with a
seed that no row uses. The choice is made on the first half of the held-out text, and results are
given on the second half. Each finished run is a line of JSON and is not run again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean

import torch

from experiments import runs as bench
from experiments.language import data_parallel as workers
from experiments.language.command import page_of
from experiments.language.data_parallel import NESTEROV, SPARSELY, TWO_BITS, Setting, trained
from experiments.language.null_results import three_digits
from experiments.language.task import Task, text_of
from experiments.tables import markdown
from fltoolkit import Channel
from fltoolkit_research.federated import AllGather
from fltoolkit_research.intervals import mean_ci
from fltoolkit_research.pooled import lossless

TRIAL_SEED = 9
RESULTS = bench.STORED / "language_tuned.jsonl"
REFERENCE, MUON = "AdamW, every step, float32", "Muon, every step, float32"
ALONE, ADAMW_ALONE = "Muon, one worker alone", "AdamW, one worker alone"
DILOCO, SPARSELOCO = "DiLoCo, H = 10, float32", "SparseLoCo, H = 10, top 2 %, 2 bits"
POWER, SIGNS = "PowerSGD, rank 4, 8 bits, AdamW", "signs, every step, AdamW"


@dataclass(frozen=True)
class Method:
    """A way to train and the learning rates that are tried for it."""

    setting: Setting
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Study:
    """One table: what is learned by which methods, and which rows are compared."""

    title: str
    task: Task
    methods: tuple[Method, ...]
    trial_steps: int
    pairs: tuple[tuple[str, str], ...] = ()


# ------------------------------------------------------------------------------- the small model

SMALL = Task()
SEEDS = (13, 14, 20, 21, 22)
METHODS = (
    REFERENCE,
    MUON,
    "Muon, H = 5, 2 bits",
    "Muon, H = 10, 2 bits",
    "MuLoCo, H = 10, 2 bits",
    ALONE,
    DILOCO,
    "local AdamW, H = 10, mean, 4 bits",
    SPARSELOCO,
    "Streaming DiLoCo, 2 x 5 steps, 4-bit floats",
    POWER,
    "AdamW, every step, 4 bits",
    SIGNS,
    "DeMo, 1 of 32 cosines",
    "FedAvg, local SGD, H = 10, float32",
    ADAMW_ALONE,
)


def small() -> Iterator[Method]:
    """Settings of the tables of workers, with rates around theirs."""
    known = {setting.name: setting for setting in workers.settings(SMALL)}
    for setting in (known[name] for name in METHODS):
        rates = tuple(factor * setting.rate for factor in (0.25, 0.5, 1, 2))
        yield Method(replace(setting, part="tuned", seeds=SEEDS), rates)


# -------------------------------------------------------------------------- ten million parameters

LARGE = Task(text="python", context=256, layers=6, width=384, batch_size=16, steps=450)


def ten_million() -> Iterator[Method]:
    """The methods, in the order of the table."""
    adamw, inner_adamw, rates = (1e-3, 2e-3, 4e-3), (5e-4, 1e-3, 2e-3), (0.01, 0.02, 0.04)

    def method(name: str, rates: tuple[float, ...], *args: object, **kwargs: object) -> Method:
        how = {"part": "large", "seeds": (10, 11, 12), **kwargs}
        return Method(Setting(name, *args, **how), rates)  # type: ignore[arg-type]

    muon: dict[str, object] = {"optimizer": "Muon"}
    yield method(REFERENCE, adamw, "ddp")
    yield method(MUON, rates, "ddp", **muon)
    yield method("Muon, H = 30, 2 bits", rates, inner_steps=30, codecs=TWO_BITS, **muon)
    yield method(
        "MuLoCo, H = 30, 2 bits", rates, inner_steps=30, outer=NESTEROV, codecs=TWO_BITS, **muon
    )
    yield method("SparseLoCo, H = 30, top 2 %, 2 bits", adamw, inner_steps=30, **SPARSELY)
    yield method("Muon, H = 30, float32", rates, inner_steps=30, **muon)
    yield method("local AdamW, H = 30, float32", adamw, inner_steps=30)
    yield method("DiLoCo, H = 30, float32", inner_adamw, inner_steps=30, outer=NESTEROV)
    alone: dict[str, object] = {"exchange": AllGather(), "workers": 1}
    yield method(ADAMW_ALONE, adamw, "ddp", **alone)
    yield method(ALONE, rates, "ddp", **muon, **alone)
    yield method("Muon, all text on one worker", rates, "ddp", whole_text=True, **muon, **alone)


STUDIES = {
    "small": Study(
        "111,425 parameters, 600 steps",
        SMALL,
        tuple(small()),
        SMALL.steps,
        (
            ("MuLoCo, H = 10, 2 bits", "Muon, H = 10, 2 bits"),
            (ALONE, "MuLoCo, H = 10, 2 bits"),
            (ALONE, "Muon, H = 10, 2 bits"),
            *((name, ADAMW_ALONE) for name in (DILOCO, SPARSELOCO, POWER, SIGNS)),
        ),
    ),
    "python": Study(
        "ten million parameters, python",
        LARGE,
        tuple(ten_million()),
        150,
        (
            (ALONE, "MuLoCo, H = 30, 2 bits"),
            (ALONE, "SparseLoCo, H = 30, top 2 %, 2 bits"),
            (ALONE, "DiLoCo, H = 30, float32"),
            (ALONE, REFERENCE),
            ("Muon, H = 30, float32", MUON),
            ("Muon, H = 30, 2 bits", "Muon, H = 30, float32"),
        ),
    ),
}


# --------------------------------------------------------------------------------- choose, and run


def trial_task(study: Study) -> Task:
    """The task of the trials, which may be shorter."""
    return replace(study.task, steps=study.trial_steps)


def trials(study: Study) -> list[Setting]:
    """Every method with each of its learning rates."""
    return [
        replace(method.setting, lr=rate, seeds=(TRIAL_SEED,))
        for method in study.methods
        for rate in method.rates
    ]


def best(study: Study, stored: Mapping[str, bench.Result]) -> list[Setting]:
    """Every method with the rate whose trial did best on the validation half, if all were run."""
    settings = []
    for method in study.methods:
        each = [replace(method.setting, lr=rate) for rate in method.rates]
        found = [stored.get(setting.key(trial_task(study), TRIAL_SEED)) for setting in each]
        results = [result["nats_validation"] for result in found if result]
        if len(results) == len(each):
            settings.append(each[results.index(min(results))])
    return settings


def run(task: Task, setting: Setting, seed: int, device: str = "cpu") -> bench.Result:
    """Train once; ``nats_validation`` and ``nats`` are of the halves of the held-out text.

    One worker with all of the text takes batches as large as those of all workers together.
    """
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    larger = (
        replace(task, batch_size=task.batch_size * task.workers) if setting.whole_text else task
    )
    result, _ = trained(larger, setting, seed, device)
    result |= {"key": setting.key(task, seed), "lr": setting.rate, "batch_size": task.batch_size}
    result["nats_validation"], result["nats"] = result.pop("halves")
    where = torch.cuda.get_device_name() if device == "cuda" else device
    return {**result, "device": where, "torch": torch.__version__}


def sizes(task: Task) -> bench.Result:
    """Bytes of the training text without loss, and what sending it to one worker takes.

    Each worker but the first sends its own part of the text, in one message.
    """
    text, channel = text_of(task.text), Channel({"samples": lossless()})
    tokens = text.train.to(torch.uint8)
    _, *others = tokens.tensor_split(task.workers)
    for number, own in enumerate(others, 1):
        channel.send(f"w{number}", "w0", "samples", {"text": own})
    whole = len(lossless().encode({"text": tokens}))
    return {"nbytes_text": whole, "nbytes": channel.nbytes(), "text_sha256": text.sha256}


# --------------------------------------------------------------------------------------- the tables


def summary(result: bench.Result) -> str:
    """Nats and bytes in one line."""
    return f"lr {result['lr']:g} {result['nats']:.3f} nats {result['nbytes'] / 1e6:10.2f} MB"


def report(name: str, stored: Mapping[str, bench.Result]) -> str:
    """The tables of a study."""
    study = STUDIES[name]
    found = bench.rows_of(study.task, best(study, stored), stored)
    if not found:
        return "no runs yet"
    runs = {setting.name: runs for setting, runs in found}
    title = f"### {study.title[0].upper()}{study.title[1:]}"
    return "\n\n".join(
        [title, *_table(study.task, found, stored[f"text of {name}"]), _pairs(study, runs)]
    )


def _table(task: Task, found: Sequence[bench.Row], size: bench.Result) -> tuple[str, str]:
    """What was run, and a row for each method."""
    every_step = {setting.name: runs for setting, runs in found}
    *_, last = found[0][1].values()
    words = (
        f"{task.workers} workers x batch {task.batch_size} x {task.context} characters, "
        f"{last['steps']} steps, a GPT of {task.layers} layers of width {task.width}, "
        f"{last['device']}, torch {last['torch']}. The training text takes "
        f"{size['nbytes_text'] / 1e6:.3f} MB without loss. Intervals: 95 %, by Student's t over "
        "the seeds, paired by seed. Nats are those of the second half of the held-out text."
    )
    rows = []
    for setting, runs in found:
        own = every_step.get(f"{setting.optimizer}, every step, float32", {})
        gains = (
            bench.gain_of(runs, each, "+.3f", "nats", 1) for each in (every_step[REFERENCE], own)
        )
        nats = mean_ci([result["nats"] for result in runs.values()], ".3f")
        sent = _sent(setting, runs, every_step[REFERENCE], size)
        rows.append([setting.name, f"{setting.rate:g}", len(runs), nats, *gains, *sent])
    return words, markdown(
        "method | learning rate | seeds | nats per character | minus AdamW "
        "| minus its own float32 | MB in all | MB up / down / to each other | times fewer "
        "| times the text",
        rows,
    )


def _sent(
    setting: Setting, runs: bench.Runs, reference: bench.Runs, size: bench.Result
) -> tuple[str, ...]:
    """Megabytes, and how many times fewer than the reference and more than the text."""
    up, down = (
        mean(result[key] for result in runs.values()) for key in ("nbytes_up", "nbytes_down")
    )
    sent = bench.mean_nbytes(runs)
    if setting.whole_text:
        sent, up, down = size["nbytes"], size["nbytes"], 0
    ways = " / ".join(f"{each / 1e6:,.1f}" for each in (up, down, max(sent - up - down, 0.0)))
    fewer = f"{bench.mean_nbytes(reference) / sent:,.1f}" if sent else ""
    times = three_digits(sent / size["nbytes_text"]) if sent else "nothing is sent"
    return f"{sent / 1e6:,.1f}", ways, fewer, times


def _pairs(study: Study, runs: Mapping[str, bench.Runs]) -> str:
    """Rows that the page compares, paired by seed."""
    found = []
    for this, other in study.pairs:
        if gains := bench.nats_above(runs.get(this, {}), runs.get(other, {})):
            found.append([this, other, len(gains), mean_ci(gains, "+.3f")])
    return markdown("this | in place of this | seeds in common | difference [nats]", found)


def main() -> None:
    """The command line."""
    parser = bench.options(__doc__, RESULTS)
    parser.add_argument("--study", choices=STUDIES, help="only this one")
    parser.add_argument("--choose", action="store_true", help="the runs that choose learning rates")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of the rows' own")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one torch thread each")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in [args.study] if args.study else STUDIES:
        study, stored = STUDIES[name], bench.read(args.out)
        if args.report or args.write:
            page_of(f"tuned --study {name}").tell(report(name, stored), args)
            continue
        bench.fill({f"text of {name}": partial(sizes, study.task)}, args.out)
        settings = trials(study) if args.choose else best(study, stored)
        jobs = bench.jobs_of(
            trial_task(study) if args.choose else study.task, bench.chosen(settings, args)
        )
        bench.sweep(
            partial(run, device=args.device), jobs, args.out, workers=args.jobs, summary=summary
        )


if __name__ == "__main__":
    main()
