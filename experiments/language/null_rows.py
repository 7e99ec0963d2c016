"""The null rows of the language tables: the text sent to one place, owners alone, nothing at all.

    python -m experiments.language.null_rows    # runs what is missing: a minute a task

Split: the label party that got all windows can compute float32's run at home, bit by bit; so only
the bytes are measured here. Fine-tuning: the receiver takes as many steps as all owners together,
an owner alone as many as it takes among others. A text is its own labels, and one bit of a
character is no character: there is no row in few bits. Results are lines of
``experiments/results/language_null.jsonl``.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from experiments.language import data_parallel, finetune, split, task
from experiments.language.null_results import ALONE, BEFORE, COMMONEST, PATH, SEND
from experiments.runs import Result, sweep
from fltoolkit import Channel, fedavg
from fltoolkit.federated import Local
from fltoolkit_research.pooled import lossless

Windows = tuple[Tensor, Tensor]


class Setting(NamedTuple):
    """One null row, of one owner where there are several."""

    part: str  # "data parallel", "split" or "finetune"
    title: str  # of the task
    name: str
    owner: int = 0

    def key(self, _task: Any, seed: int) -> str:
        """Of a run in the file of results."""
        return "/".join((*map(str, self), str(seed)))


def settings(seeds: Sequence[int] = ()) -> Iterator[tuple[Any, Setting, int]]:
    """All runs, with these seeds or with those of the rows beside them."""
    whole = task.Task()
    for seed in seeds or task.FRESH_SEEDS:
        for name in (BEFORE, COMMONEST):
            yield whole, Setting("data parallel", whole.text, name), seed
    for title, each in split.TASKS.items():
        own = dict.fromkeys(s for setting in split.settings(each) for s in setting.seeds)
        for seed in seeds or own:
            for name in (SEND, BEFORE, COMMONEST):
                yield each, Setting("split", title, name), seed
    for title, tuned in finetune.TASKS.items():
        for seed in seeds or finetune.SEEDS:
            for name in (SEND, BEFORE, COMMONEST):
                yield tuned, Setting("finetune", title, name), seed
            for owner in range(tuned.num_clients):
                yield tuned, Setting("finetune", title, ALONE, owner), seed


def run(each: Any, setting: Setting, seed: int) -> Result:
    """Nats, where something is trained or nothing is; bytes, where something is sent.

    ``data`` are the windows that the task learns from, without loss, as one message.
    """
    owners, test = windows_of(each, setting.part, seed)
    sent = sent_by(owners) if setting.name == SEND else 0
    whole = {"all": torch.cat([joined(own) for own in owners.values()])}
    nats: float | None = None
    if setting.name == COMMONEST:
        nats = unigram(whole["all"], test[1])
    elif setting.name == BEFORE:
        nats = finetune.score(first_model(each, setting.part, seed), test)
    elif setting.part == "finetune":
        nats = tuned(each, setting, owners, test, seed)
    return {
        **{"key": setting.key(each, seed), "seed": seed, **setting._asdict()},
        **{"nats": nats, "nbytes": sent, "data": len(lossless().encode(whole)), "seconds": 0.0},
    }


def windows_of(each: Any, part: str, seed: int) -> tuple[dict[str, Windows], Windows]:
    """Who has which windows, and those of the test."""
    if part == "data parallel":
        text = task.text_of(each.text)
        return data_parallel.deal(each, seed, by_role=False), text.windows(each.context, "test")
    if part == "finetune":
        return finetune.clients_of(each)
    x, y = split.windows(each, "train")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    chosen = order[: each.num_windows]
    x_test, y_test = (some[: each.num_tested] for some in split.windows(each, "test"))
    return {"alice": (x[chosen], y[chosen])}, (x_test, y_test)


def joined(own: Windows) -> Tensor:
    """Windows with the character that follows each."""
    return torch.cat([own[0], own[1][:, -1:]], dim=1)


def sent_by(owners: Mapping[str, Windows]) -> int:
    """Bytes of a message from each owner to the receiver."""
    channel = Channel({"samples": lossless()})
    for name, own in owners.items():
        channel.send(name, "receiver", "samples", {"x": joined(own)})
    return channel.nbytes()


def unigram(known: Tensor, y: Tensor) -> float:
    """Nats a character of the test for who knows how common each one is in training, plus one."""
    counts = torch.bincount(known.flatten(), minlength=int(max(known.max(), y.max())) + 1) + 1
    return float(-(counts / counts.sum()).log()[y.flatten()].mean())


def first_model(each: Any, part: str, seed: int) -> torch.nn.Module:
    """The network before any step: fresh, or pretrained."""
    if part == "data parallel":
        return task.model_of(each, seed)
    if part == "split":
        return split.network(each, seed)
    return split.learned(each.learned, each.pretrained_steps)


def tuned(
    each: finetune.Task, setting: Setting, owners: Mapping[str, Windows], test: Windows, seed: int
) -> float:
    """Nats of all weights, fine-tuned in one place: on all windows, or on those of one owner."""
    model, steps = first_model(each, "finetune", seed), each.steps
    if setting.name == SEND:
        x, y = (torch.cat(parts) for parts in zip(*owners.values(), strict=True))
        steps *= len(owners)
    else:
        x, y = list(owners.values())[setting.owner]
    optimizer = partial(torch.optim.AdamW, lr=finetune.LR["full"], weight_decay=0.0)
    local = Local(batch_size=each.batch_size, optimizer=optimizer, steps=steps, keep_state=True)
    how: dict[str, Any] = {"rounds": each.rounds, "cohort": 1, "local": local, "seed": seed}
    for _ in fedavg(model, {"one": (x, y)}, Channel(), **how):
        pass
    return finetune.score(model, test)


def summary(result: Result) -> str:
    """The main results in one line."""
    nats = "  (float32's)" if result["nats"] is None else f"{result['nats']:.3f} nats"
    return f"{nats} {result['nbytes'] / 1e3:9.1f} kB"


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(prog="python -m experiments.language.null_rows")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=(), help="instead of each row's own"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    sweep(run, settings(args.seeds), PATH, summary=summary)


if __name__ == "__main__":
    main()
