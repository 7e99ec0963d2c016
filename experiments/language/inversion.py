"""Token inversion: which characters are found in the activations at a cut, through which link.

    python -m experiments.language.inversion            # runs what is missing
    python -m experiments.language.inversion --report   # prints the table
    python -m experiments.language.inversion --write    # writes it into docs/language_results.md

The network is pretrained and is attacked as it is; nobody trains through the link. Here: links,
one attack, the table. Not here: the attacks themselves (fltoolkit_research.leakage.tokens).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import torch

from experiments.language.command import main
from experiments.language.split import CONTEXT, SEEDS, learned, text_of
from experiments.runs import Result, Row, digest, rows_of, share_ci
from experiments.tables import markdown
from fltoolkit import Channel, Party
from fltoolkit.codecs import Codec, Pipeline, Quantize
from fltoolkit_research.codecs import EDEN
from fltoolkit_research.intervals import mean_ci
from fltoolkit_research.leakage import (
    Noise,
    nearest_tokens,
    overhear,
    train_token_decoder,
    unigram_guess,
)


@dataclass(frozen=True)
class Task:
    """Whose text is attacked, and how much text the attacker has."""

    text: str
    pretrained_steps: int
    num_known: int  # windows of the training part, the attacker's
    num_victims: int  # windows of the test part


TASKS = {"shakespeare": Task("shakespeare", 1500, 300, 200)}


@dataclass(frozen=True)
class Setting:
    """What the activations behind the first block go through."""

    name: str
    codec: Codec | None = None
    cut: int = 2  # items before the cut: the embedding and the first block
    seeds: tuple[int, ...] = SEEDS

    def key(self, task: Task, seed: int) -> str:
        """The same for the same attack, whatever it is called."""
        what = {**asdict(task), "seed": seed, "cut": self.cut, "codec": repr(self.codec)}
        return digest(what)


def settings(task: Task) -> list[Setting]:
    """All links, in the order of the table."""
    return [
        Setting("float32"),
        Setting("4 bits", Pipeline(Quantize(4))),
        Setting("rotated, 1 bit", Pipeline(EDEN(1))),
        *(Setting(f"noise {sigma:g}", Pipeline(Noise(sigma))) for sigma in (1.0, 4.0)),
    ]


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Attack in four ways; the seed deals the windows and begins the attackers' networks."""
    start = time.process_time()
    text = text_of(task.text)
    model = learned(task.text, task.pretrained_steps)
    generator = torch.Generator().manual_seed(seed)
    known, victims = text.windows(CONTEXT)[0], text.windows(CONTEXT, "test")[0]
    known = known[torch.randperm(len(known), generator=generator)[: task.num_known]]
    victims = victims[torch.randperm(len(victims), generator=generator)[: task.num_victims]]
    alice = Party("alice", model[: setting.cut])
    channel = Channel({} if setting.codec is None else {"activations": setting.codec})
    heard = overhear(alice, known, channel)
    h = heard.h.unflatten(1, (CONTEXT, -1))
    seen = overhear(alice, victims, channel).h.unflatten(1, (CONTEXT, -1))
    table, positions = model[0].what.weight.detach(), model[0].where.weight.detach()
    size = {"num_tokens": len(text.alphabet)}
    guesses = {"nearest": nearest_tokens(seen, table, positions=positions)}
    for name, hidden, reach in (("probe", 0, 0), ("network", 128, 0), ("neighbours", 128, 1)):
        decoder = train_token_decoder(h, known, **size, seed=seed, hidden=hidden, reach=reach)
        guesses[name] = decoder(seen)
    return {
        **{"key": setting.key(task, seed), "experiment": "inversion", "task": task.text},
        **{"name": setting.name, "seed": seed},
        **{name: float((g == victims).double().mean()) for name, g in guesses.items()},
        "null": unigram_guess(victims, known, **size),
        "nbytes": heard.nbytes / known.numel(),  # a character
        "deviation": float(h.std()),
        "seconds": round(time.process_time() - start, 1),
    }


def summary(result: Result) -> str:
    """The main results in one line."""
    return f"probe {result['probe']:.1%}, {result['nbytes']:.1f} B a character"


def report(results: Mapping[str, Result]) -> str:
    """The table of each text as Markdown."""
    blocks = []
    for title, task in TASKS.items():
        if rows := rows_of(task, settings(task), results):
            blocks += [f"### Token inversion, {title}", table_of(rows), effort(task, rows)]
    return "\n\n".join(blocks) or "no runs yet"


def table_of(rows: Sequence[Row]) -> str:
    """Shares of characters found, in percent."""
    found = []
    for setting, runs in rows:
        size = sum(run["nbytes"] for run in runs.values()) / len(runs)
        shares = [
            share_ci([100 * run[name] for run in runs.values()], ".1f")
            for name in ("nearest", "probe", "network", "neighbours")
        ]
        found.append([setting.name, len(runs), f"{size:.1f}", *shares])
    printed = markdown(
        "link | seeds | B a character | nearest embedding | linear probe | network "
        "| network with neighbours",
        found,
    )
    nulls = [100 * run["null"] for _, runs in rows for run in runs.values()]
    cells = " | ".join([mean_ci(nulls, ".1f")] * 4)
    return f"{printed}\n| null model: the most frequent character | | 0 | {cells} |"


def effort(task: Task, rows: Sequence[Row]) -> str:
    """What was attacked."""
    runs = [run for _, found in rows for run in found.values()]
    plain = [r["deviation"] for s, found in rows if s.name == "float32" for r in found.values()]
    return (
        f"Share of characters found, in percent; {len(runs)} attacks on {task.num_victims} windows "
        f"of {CONTEXT} characters by an attacker who has {task.num_known} others. Behind the first "
        "block, where activations have a standard deviation of "
        f"{mean_ci(plain, '.2f')}."
    )


if __name__ == "__main__":
    main("inversion", TASKS, settings, run, summary, report)
