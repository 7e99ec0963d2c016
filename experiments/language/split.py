"""A transformer cut after its first block, and U-shaped: nats against bytes in both directions.

    python -m experiments.language.split              # runs what is missing
    python -m experiments.language.split --report     # prints the tables
    python -m experiments.language.split --write      # writes them into docs/language_results.md

Here: the settings of the split part, one run of them, and their tables.
"""

import copy
import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from experiments.language import null_results
from experiments.language.command import main
from experiments.null_rows import megabytes
from experiments.replications.lowrank import Subspace
from experiments.runs import Result, Row, Runs, converged, digest, gain_of, mean_nbytes, rows_of
from experiments.tables import markdown
from fltoolkit import Batches, Party, evaluate
from fltoolkit.codecs import Codec, Pipeline, Quantize
from fltoolkit.split import AlwaysA, Periodic, Upload, train_async, train_split
from fltoolkit_research import pretrained
from fltoolkit_research.codecs import EDEN, ContextEntropy, RandTopK, SameMask, SameMaskChannel
from fltoolkit_research.data import Text, load_text
from fltoolkit_research.intervals import mean_ci
from fltoolkit_research.models import gpt

CONTEXT = 64  # characters a window
CUTS = {  # items of the row: embedding, two blocks, head
    "plain": (2,),  # alice has the embedding and the first block, bob the rest
    "U-shaped": (2, 3),  # and alice the head
}


@dataclass(frozen=True)
class Task:
    """The text, and how the network learns it."""

    name: str
    text: str
    num_windows: int  # of the training part, dealt by the seed
    epochs: int
    batch_size: int
    lr: float  # of AdamW; it rises for 50 steps and falls like a cosine
    num_tested: int  # windows of the test part
    pretrained_steps: int = 0  # 0: from scratch
    upper: bool = False  # whether the text is written in capital letters


TASKS = {
    "scratch": Task("scratch", "shakespeare", 1600, 4, 16, 6e-3, 400),
    "tune": Task("tune", "shakespeare", 400, 8, 16, 1e-3, 400, pretrained_steps=1500, upper=True),
}
SEEDS = (1, 2, 3, 4, 5)  # fresh, and 4 and 5 were run later
CHOOSING = 100  # the codecs were chosen by runs of this seed, with twice the text of "scratch"
TUNED = "subspace 32, differences 4 bits, gradients 1 bit"
FRESH = "differences 3 bits, gradients 1 bit"


@dataclass(frozen=True)
class Setting:
    """How activations and gradients travel, when, and which of them."""

    part: str  # the table it belongs to
    name: str
    up: Codec | None = None
    down: Codec | None = None
    upload: Upload | None = None  # one given: train_async, and None: train_split
    period: int = 1  # 1: always in state A
    shape: str = "plain"
    seeds: tuple[int, ...] = SEEDS

    @property
    def codecs(self) -> dict[str, Codec]:
        pairs = {"activations": self.up, "gradients": self.down}
        return {kind: codec for kind, codec in pairs.items() if codec is not None}

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called: so a rerun knows what is there."""
        what = {**asdict(task), "seed": seed, "shape": self.shape, "period": self.period}
        what |= {"upload": repr(self.upload)}
        what |= {kind: repr(codec) for kind, codec in self.codecs.items()}
        return digest(what)


class Cosine(torch.optim.AdamW):
    """AdamW whose learning rate rises for some steps and falls to 0 like a cosine."""

    def __init__(self, params: Iterable[Tensor], lr: float, num_steps: int, warm_up: int = 50):
        super().__init__(params, lr=lr)
        self.highest, self.num_steps, self.warm_up, self.num_done = lr, num_steps, warm_up, 0

    def step(self, closure: Any = None) -> Any:
        """One step with the learning rate of its number."""
        rise = min((self.num_done + 1) / self.warm_up, 1.0)
        fall = 0.5 * (1 + math.cos(math.pi * min(self.num_done / self.num_steps, 1.0)))
        for group in self.param_groups:
            group["lr"] = self.highest * rise * fall
            nn.utils.clip_grad_norm_(group["params"], 1.0)
        self.num_done += 1
        return super().step(closure)


# ------------------------------------------------------------------------------------ the settings

PLAIN, CHANGES, SILENCE, RANK, U = (
    "fewer bits",
    "differences, and only what moved",
    "silence",
    "fewer values",
    "U-shaped: labels stay with their owner",
)


def settings(task: Task) -> list[Setting]:
    """All settings of a task, in the order of the tables."""
    found: list[Setting] = []

    def add(part: str, name: str, *codecs: Codec | None, **rest: Any) -> None:
        up, down = codecs * 2 if len(codecs) == 1 else codecs or (None, None)
        found.append(Setting(part, name, up, down, **rest))

    add(PLAIN, "float32")
    for bits in (8, 4, 3, 2):
        add(PLAIN, f"{bits} bits", Pipeline(Quantize(bits, per=64), ContextEntropy()))
    for bits in (4, 2, 1):
        add(PLAIN, f"rotated, {bits} bit{'s' * (bits > 1)} (EDEN)", eden(bits))
    delta = {"upload": Upload(delta=True)}
    for bits in (3, 2):
        add(CHANGES, f"differences, {bits} bits (EDEN)", eden(bits), **delta)
    for bits in (2, 3):
        add(CHANGES, f"differences {bits} bits, gradients 1 bit", eden(bits), eden(1), **delta)
    for moved in (0.3, 0.5):
        add(CHANGES, f"sent if moved by {moved:.0%}", upload=Upload(moved=moved))
    add(SILENCE, "A, B, C: one period in three", upload=Upload(), period=3)
    add(RANK, "RandTopK 10%", Pipeline(RandTopK(0.1)), Pipeline(SameMask()))
    add(RANK, "subspace of rank 16", Pipeline(Subspace(16)))
    half = [Pipeline(Subspace(32), EDEN(bits), ContextEntropy()) for bits in (4, 1)]
    add(RANK, "subspace 32, 4 bits, gradients 1 bit", *half)
    add(RANK, TUNED, *half, **delta)
    add(U, "float32 (U)", shape="U-shaped")
    add(U, "rotated, 4 bits (U)", eden(4), shape="U-shaped")
    add(U, "rotated, 4 bits, gradients 1 bit (U)", eden(4), eden(1), shape="U-shaped")
    return found


def eden(bits: int) -> Codec:
    """A rotation, so many bits, entropy coding."""
    return Pipeline(EDEN(bits), ContextEntropy())


# ------------------------------------------------------------------------------------------- a run


@lru_cache(maxsize=2)
def text_of(name: str) -> Text:
    return load_text(name)


@lru_cache(maxsize=2)
def _learned(name: str, num_steps: int) -> nn.Sequential:
    return pretrained(text_of(name), num_steps=num_steps, context=CONTEXT)


def learned(name: str, num_steps: int) -> nn.Sequential:
    """A model of one's own that has learned a text, which happens once in a process."""
    return copy.deepcopy(_learned(name, num_steps))


def capital(text: Text, ids: Tensor) -> Tensor:
    """The same characters in capital letters, where the alphabet has them."""
    written = (c.upper() if c.upper() in text.alphabet else c for c in text.decode(ids))
    return text.encode("".join(written))


def windows(task: Task, part: str) -> tuple[Tensor, Tensor]:
    """The windows of a task's text."""
    text = text_of(task.text)
    if not task.upper:
        return text.windows(CONTEXT, part)
    ids = capital(text, text.train if part == "train" else text.test)
    size = (len(ids) - 1) // CONTEXT * CONTEXT
    return ids[:size].reshape(-1, CONTEXT), ids[1 : size + 1].reshape(-1, CONTEXT)


def network(task: Task, seed: int) -> nn.Sequential:
    """Fresh, or pretrained on the text as it is written."""
    if not task.pretrained_steps:
        return gpt(len(text_of(task.text).alphabet), context=CONTEXT, seed=seed)
    return learned(task.text, task.pretrained_steps)


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train once and test; a run that diverges ends with ``diverged`` in place of results."""
    start = time.process_time()
    x, y = windows(task, "train")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    chosen = order[: task.num_windows]
    data = Batches(x[chosen], y[chosen], task.batch_size, seed=seed)
    num_steps = task.epochs * len(data)
    model = network(task, seed)
    edges = [0, *CUTS[setting.shape], len(model)]
    parts = [model[a:b] for a, b in itertools.pairwise(edges)]
    names = ["alice", "bob", "alice"]
    parties = [
        Party(
            name,
            part,
            Cosine(part.parameters(), task.lr, num_steps),
            nn.NLLLoss() if part is parts[-1] else None,
        )
        for name, part in zip(names, parts, strict=False)
    ]
    channel = SameMaskChannel(setting.codecs)
    about = {
        **{"key": setting.key(task, seed), "experiment": "split", "task": task.name},
        **{"part": setting.part, "name": setting.name, "seed": seed},
    }
    try:
        if setting.upload is None:
            records = train_split(parties, data.epochs(task.epochs), channel)
        else:
            gate = AlwaysA() if setting.period == 1 else Periodic(setting.period, every=50)
            records = train_async(
                *parties, data, channel, gate=gate, num_epochs=task.epochs, upload=setting.upload
            )
        for record in records:
            last = record
    except FloatingPointError:
        return about | {"diverged": channel.step, "seconds": time.process_time() - start}
    x_test, y_test = (part[: task.num_tested] for part in windows(task, "test"))
    score = evaluate(parties, x_test, y_test, through=structure(setting.up), batch_size=200)
    coded = evaluate(parties, x_test, y_test, through=setting.up, batch_size=200)
    return about | {
        "nats": score["test_loss"],
        "nats_coded": coded["test_loss"],
        "accuracy": score["accuracy"],
        **{name: last[name] for name in ("nbytes_up", "nbytes_down", "nbytes")},
        "seconds": round(time.process_time() - start, 1),
    }


def structure(codec: Codec | None) -> Codec | None:
    """The part of a codec that is a part of the network: its subspace, or that few values are kept.

    Tests are done with it and without the rounding, which is there for training's sake only;
    ``nats_coded`` is with all of it.
    """
    for stage in getattr(codec, "stages", ()):
        if isinstance(stage, Subspace):
            return Pipeline(stage)
        if isinstance(stage, RandTopK):
            return Pipeline(RandTopK(stage.fraction, training=False))
    return None


def summary(result: Result) -> str:
    """The main results in one line."""
    if "diverged" in result:
        return f"diverged at step {result['diverged']}"
    return f"{result['nats']:.4f} nats {result['nbytes'] / 1e6:8.2f} MB"


# --------------------------------------------------------------------------------------- the table


def report(results: Mapping[str, Result]) -> str:
    """The table of each task as Markdown."""
    blocks = []
    for title, task in TASKS.items():
        if rows := converged(rows_of(task, settings(task), results)):
            blocks += [f"### Split, {title}", table(rows, title), effort(task, rows)]
    return "\n\n".join(blocks) or "no runs yet"


def table(rows: Sequence[Row], title: str) -> str:
    """Nats and bytes of each setting, against float32 seed by seed; the null rows last."""
    found, data = {s.name: runs for s, runs in rows}, null_results.data_nbytes("split", title)
    lines = []
    for setting, runs in rows:
        reference = found.get("float32 (U)" if setting.part == U else "float32", {})
        lines.append(line(setting.name, runs, reference, data))
    float32 = found.get("float32", {})
    for name, runs in null_results.rows("split", title).items():
        known = {  # with all windows, float32's run is computed at home
            seed: {**run, "nats": float32[seed]["nats"]} if run["nats"] is None else run
            for seed, run in runs.items()
            if seed in float32
        }
        lines.append(line(f"**{name}**", known, float32, data))
    printed = markdown(
        "setting | seeds | nats per character | minus float32 | nats, coded in use "
        "| minus float32, coded in use | MB in all | times the data | times fewer bytes",
        lines,
    )
    return "\n".join([printed, *beside_plain(found)])


def beside_plain(found: Mapping[str, Runs]) -> Iterator[str]:
    """Differences to what the other side holds, in place of the same bits as they are."""
    one, two = (f"{word}, 2 bits (EDEN)" for word in ("differences", "rotated"))
    if one in found and two in found:
        plain, coded = (
            gain_of(found[one], found[two], "+.3f", key, 1) for key in ("nats", "nats_coded")
        )
        yield from ("", f"{one} in place of {two}: {plain} nats, {coded} coded in use.")


def line(name: str, runs: Runs, reference: Runs, data: Mapping[int, int]) -> list[str]:
    """A row of the table; whoever has the text rounds nothing at a cut."""
    coded = all("nats_coded" in run for run in runs.values())
    sent = mean_nbytes(runs)
    return [
        name,
        str(len(runs)),
        mean_ci([r["nats"] for r in runs.values()], ".3f"),
        gain_of(runs, reference, "+.3f", "nats", 1),
        mean_ci([r["nats_coded"] for r in runs.values()], ".3f") if coded else "",
        gain_of(runs, reference, "+.3f", "nats_coded", 1) if coded else "",
        megabytes(sent),
        null_results.times(runs, data),
        f"{mean_nbytes(reference) / sent:,.1f}" if reference and sent else "",
    ]


def effort(task: Task, rows: Sequence[Row]) -> str:
    """What was run."""
    runs = [run for _, found in rows for run in found.values()]
    seconds = sum(run["seconds"] for run in runs)
    seeds = {", ".join(map(str, sorted(found))) for _, found in rows}
    words = " or ".join(sorted(seeds, key=len))
    return (
        f"{len(runs)} runs, seeds of a row: {words}; {task.epochs} epochs over "
        f"{task.num_windows:,} windows of {CONTEXT} characters "
        f"({task.text}{', in capital letters' if task.upper else ''}), batch "
        f"{task.batch_size}, AdamW {task.lr:g}, together {seconds / 60:.0f} CPU minutes."
    )


if __name__ == "__main__":
    main("split", TASKS, settings, run, summary, report)
