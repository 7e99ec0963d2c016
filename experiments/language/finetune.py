"""Federated fine-tuning of a small pretrained model: nats against bytes per round.

    python -m experiments.language.finetune           # runs what is missing
    python -m experiments.language.finetune --report  # prints the tables
    python -m experiments.language.finetune --write   # writes them into docs/language_results.md

The pretrained models are trained once in each process (`fltoolkit_research.pretrained`). Here: the
settings of the fine-tuning part, one run of them, and their tables.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import mean

import torch
from torch import Tensor, nn

from experiments.language import null_results
from experiments.language.command import main
from experiments.language.split import CONTEXT, capital, learned, text_of
from experiments.null_rows import megabytes
from experiments.runs import Result, Row, Runs, converged, digest, gain_of, mean_nbytes, rows_of
from experiments.tables import markdown
from fltoolkit import Channel, Party, evaluate, fedavg
from fltoolkit.codecs import Codec, ErrorFeedback, Pipeline
from fltoolkit.federated import Local
from fltoolkit_research.codecs import EDEN, ContextEntropy, Difference
from fltoolkit_research.data import partition_contiguous, speeches
from fltoolkit_research.finetuning import FineTuned, full, lora
from fltoolkit_research.intervals import mean_ci

SEEDS = (1, 2, 3, 4, 5)  # fresh, and 4 and 5 were run later


@dataclass(frozen=True)
class Task:
    """What the model has learned, what it shall learn, and who has which part of that."""

    name: str
    learned: str  # the text of the pretrained model
    text: str  # the new text ...
    upper: bool  # ... in capital letters, or as it is
    by_role: bool  # clients are the speakers with most to say; else contiguous parts
    pretrained_steps: int = 1500
    num_clients: int = 4
    rounds: int = 8
    steps: int = 15
    batch_size: int = 8
    num_tested: int = 800


TASKS = {
    "upper": Task("upper", "shakespeare", "shakespeare", True, False),
    "roles": Task("roles", "topics", "shakespeare", False, True),
}

FULL, ADAPTERS, SOME = "all weights", "LoRA", "some weights"


@dataclass(frozen=True)
class Setting:
    """Which changes are learned and how they travel."""

    part: str
    name: str
    kind: str  # "full", "lora", "ffa", "ends" (embedding and head)
    lr: float
    rank: int = 0
    codec: Codec | None = None
    seeds: tuple[int, ...] = SEEDS

    @property
    def codecs(self) -> dict[str, Codec]:
        """Differences down, error feedback up: what one message loses a later one sends."""
        if self.codec is None:
            return {}
        return {"model": Difference(self.codec), "update": ErrorFeedback(self.codec)}

    def tuned(self, model: nn.Module) -> FineTuned:
        """The model with the changes that are learned."""
        if self.kind == "full":
            return full(model)
        if self.kind in ("lora", "ffa"):  # in the blocks and in the head
            return lora(model, self.rank, freeze_a=self.kind == "ffa", seed=0)
        # the embedding is item 0 of the row, the head item 3
        return full(model, where=lambda name: name.split(".")[0] in ("0", "3"))

    def key(self, task: Task, seed: int) -> str:
        """The same for the same run, whatever it is called: so a rerun knows what is there."""
        what = {**asdict(task), "seed": seed, "kind": f"{self.kind}, all linear layers"}
        return digest(what | {"lr": self.lr, "rank": self.rank, "codec": repr(self.codec)})


LR = {"full": 3e-3, "lora": 1e-2, "ffa": 1e-2, "ends": 2e-2}
"""By kind, chosen with seed 100 on "upper" in float32 (`CHOICE`); FFA-LoRA has LoRA's."""
CHOICE = "choice"
"""The part of the stored runs that chose them: all of one kind, one after the other."""


def settings(task: Task) -> list[Setting]:
    """All settings, in the order of the table."""
    few = {"codec": eden(2)}
    return [
        Setting(FULL, "full, float32", "full", LR["full"]),
        Setting(FULL, "full, 2 bits (EDEN)", "full", LR["full"], **few),
        Setting(FULL, "full, 1 bit (EDEN)", "full", LR["full"], codec=eden(1)),
        Setting(ADAPTERS, "LoRA 4, float32", "lora", LR["lora"], 4),
        Setting(ADAPTERS, "LoRA 8, float32", "lora", LR["lora"], 8),
        Setting(ADAPTERS, "LoRA 8, 2 bits (EDEN)", "lora", LR["lora"], 8, **few),
        Setting(ADAPTERS, "FFA-LoRA 8, float32", "ffa", LR["ffa"], 8),
        Setting(SOME, "embedding and head, float32", "ends", LR["ends"]),
        Setting(SOME, "embedding and head, 2 bits (EDEN)", "ends", LR["ends"], **few),
    ]


def eden(bits: int) -> Codec:
    """A rotation, so many bits, entropy coding; biased, since both ways have error feedback."""
    return Pipeline(EDEN(bits, unbiased=False), ContextEntropy())


# ------------------------------------------------------------------------------------------- a run


def clients_of(task: Task) -> tuple[dict[str, tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """The clients' windows by name, and the windows of the test."""
    known, text = text_of(task.learned), text_of(task.text)
    parts, test = [text.decode(text.train)], text.decode(text.test)
    if task.by_role:
        spoken = speeches(parts[0])
        parts = sorted(spoken.values(), key=len, reverse=True)[: task.num_clients]

    def cut(written: str) -> tuple[Tensor, Tensor]:
        ids = known.encode("".join(c for c in written if c in known.alphabet))
        ids = capital(known, ids) if task.upper else ids
        size = (len(ids) - 1) // CONTEXT * CONTEXT
        return ids[:size].reshape(-1, CONTEXT), ids[1 : size + 1].reshape(-1, CONTEXT)

    if task.by_role:
        data = [cut(part) for part in parts]
    else:
        x, y = cut(parts[0])
        data = [(x[rows], y[rows]) for rows in partition_contiguous(len(x), task.num_clients)]
    x_test, y_test = cut(test)
    named = {f"client_{k}": each for k, each in enumerate(data)}
    return named, (x_test[: task.num_tested], y_test[: task.num_tested])


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Fine-tune once and test; bytes are those of all rounds without the first download.

    The first download holds zeros, which everybody knows: with float32 it would cost a full model,
    with a codec almost nothing, and the comparison would be about that.
    """
    start = time.process_time()
    clients, test = clients_of(task)
    model = learned(task.learned, task.pretrained_steps)
    before = score(model, test)
    tuned = setting.tuned(model)
    channel = Channel(setting.codecs)
    about = {
        **{"key": setting.key(task, seed), "experiment": "finetune", "task": task.name},
        **{"part": setting.part, "name": setting.name, "seed": seed},
    }
    local = Local(
        batch_size=task.batch_size,
        optimizer=partial(torch.optim.AdamW, lr=setting.lr, weight_decay=0.0),
        steps=task.steps,
        keep_state=True,
    )
    size = {"rounds": task.rounds, "cohort": len(clients)}
    nats, first = [], 0
    try:
        for record in fedavg(tuned, clients, channel, **size, local=local, seed=seed):
            first = first or record["nbytes_down"]
            nats.append(score(tuned, test))
    except FloatingPointError:
        return about | {"diverged": channel.step, "seconds": time.process_time() - start}
    per = task.rounds * len(clients)
    return about | {
        "nats": nats[-1],
        "nats_before": before,
        "nats_by_round": [round(each, 4) for each in nats],
        "num_learned": sum(p.numel() for p in tuned.parameters()),
        "nbytes_up": record["nbytes_up"] / per,  # a round and client
        "nbytes_down": (record["nbytes_down"] - first) / (per - len(clients)),
        "nbytes": record["nbytes"] - first,
        "seconds": round(time.process_time() - start, 1),
    }


def score(model: nn.Module, test: tuple[Tensor, Tensor]) -> float:
    """Nats a character."""
    record = evaluate([Party("server", model, None, nn.NLLLoss())], *test, batch_size=200)
    return float(record["test_loss"])


def summary(result: Result) -> str:
    """The main results in one line."""
    if "diverged" in result:
        return f"diverged in round {result['diverged']}"
    return f"{result['nats']:.4f} nats {result['nbytes_up'] / 1e3:8.2f} kB"


# --------------------------------------------------------------------------------------- the table


def report(results: Mapping[str, Result]) -> str:
    """The tables of all tasks as Markdown."""
    blocks = []
    for task in TASKS.values():
        if rows := converged(rows_of(task, settings(task), results)):
            blocks += [f"### Fine-tuning, {task.name}", table(rows, task.name), effort(task, rows)]
    return "\n\n".join(blocks) or "no runs yet"


def table(rows: Sequence[Row], title: str) -> str:
    """Nats and bytes of each setting, against full float32 seed by seed; the null rows last."""
    reference = next((runs for setting, runs in rows if setting.name == "full, float32"), {})
    found = []
    for setting, runs in rows:
        ways = (mean(run[f"nbytes_{way}"] for run in runs.values()) for way in ("up", "down"))
        found.append(line(setting.name, title, runs, reference, [f"{n / 1e3:.1f}" for n in ways]))
    for name, runs in null_results.rows("finetune", title).items():
        found.append(line(f"**{name}**", title, runs, reference, ["", ""]))
    return markdown(
        "what is learned and how it travels | seeds | nats per character | minus full float32 "
        "| kB up per round and client | kB down | MB in all | times the data | times fewer bytes",
        found,
    )


def line(name: str, title: str, runs: Runs, reference: Runs, ways: list[str]) -> list[str]:
    """A row of the table of a task; ``ways``: kB up and down."""
    sent = mean_nbytes(runs)
    return [
        name,
        str(len(runs)),
        mean_ci([run["nats"] for run in runs.values()], ".3f"),
        gain_of(runs, reference, "+.3f", "nats", 1),
        *(*ways, megabytes(sent)),
        null_results.times(runs, null_results.data_nbytes("finetune", title)),
        f"{mean_nbytes(reference) / sent:,.1f}" if reference and sent else "",
    ]


def effort(task: Task, rows: Sequence[Row]) -> str:
    """What was run."""
    runs = [run for _, found in rows for run in found.values()]
    befores = {round(run["nats_before"], 3) for run in runs if "nats_before" in run}
    seconds = sum(run["seconds"] for run in runs)
    return (
        f"{len(runs)} runs; before fine-tuning {', '.join(map(str, sorted(befores)))} nats. "
        f"{task.num_clients} clients, {task.rounds} rounds of {task.steps} local AdamW steps, "
        f"batch {task.batch_size}; together {seconds / 60:.0f} CPU minutes."
    )


if __name__ == "__main__":
    main("finetune", TASKS, settings, run, summary, report)
