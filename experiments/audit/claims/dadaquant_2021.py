"""More levels as training goes on, and fewer for small clients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, on_seeds, spread, times
from fltoolkit import Channel, Party, evaluate, fedavg, load
from fltoolkit.codecs import Pipeline
from fltoolkit.codecs.stage import Parts, Stage, Symbols, floats, side, take_side, take_symbols
from fltoolkit.federated import Local, draw_cohort
from fltoolkit.links import Link
from fltoolkit.models import splitnn_mlp
from fltoolkit_research.codecs import ContextEntropy

CLIENTS, COHORT, ROUNDS = 40, 10, 40
LEVELS = 4  # of the static quantizer, and the most of the adaptive one, which begins with 1
SMOOTH, LOOK_BACK = 0.9, ROUNDS // 10  # psi and phi of the paper
FLOAT32, STATIC, ADAPTIVE = "float32", "fixed levels", "DAdaQuant"


@dataclass
class FixedPoint(Stage):
    """Multiples of max|x| / levels with random rounding: the quantizer of Federated QSGD."""

    levels: int
    seed: int
    leaves_floats = False

    def apply(self, parts: Parts) -> Parts:
        out, random = dict(parts), np.random.default_rng(self.seed)
        for name, x in floats(parts).items():
            largest = float(x.abs().max()) or 1.0
            up = torch.from_numpy(random.random(tuple(x.shape), dtype=np.float32))
            steps = (x / largest * self.levels + up).floor().clamp(-self.levels, self.levels)
            symbols = (steps + self.levels).to(torch.uint8)
            out[name] = Symbols(symbols, 2 * self.levels + 1)
            out[side(name, "m")] = torch.tensor(largest)
        return out

    def undo(self, parts: Parts) -> Parts:
        out = dict(parts)
        for name in [name for name, part in parts.items() if isinstance(part, Symbols)]:
            symbols = take_symbols(out, name, 2 * self.levels + 1)
            largest = take_side(out, name, "m", torch.float32)
            out[name] = (symbols.float() - self.levels) * (largest / self.levels)
        return out


class Leveled(Channel):
    """Each client's updates have levels of their own.

    A client receives its levels in a message, and sends its loss in another: both are counted.
    """

    def __init__(self, seed: int):
        super().__init__(self.codec_of)
        self.levels: Mapping[str, int] = {}
        self._random, self._seed = np.random.default_rng(seed), 0

    def codec_of(self, link: Link) -> Pipeline | None:
        """The codec of a link: for an update, the levels of its sender."""
        if link.kind != "update":
            return None
        return Pipeline(FixedPoint(self.levels[link.sender], self._seed), ContextEntropy())

    def send(self, sender: str, receiver: str, kind: str, tree):  # type: ignore[no-untyped-def]
        if kind == "update":
            self._seed = int(self._random.integers(2**31))
            super().send(sender, receiver, "control", {"loss": torch.zeros(())})
        elif kind == "model":
            message = {"levels": torch.tensor(self.levels[receiver], dtype=torch.uint8)}
            super().send(sender, receiver, "control", message)
        return super().send(sender, receiver, kind, tree)


class Doubling:
    """Twice as many levels when the mean loss is no lower than some rounds before."""

    def __init__(self) -> None:
        self.levels, self.changed, self.means = 1, 0, [0.0]

    def __call__(self, loss: float) -> None:
        """Take the loss of a round."""
        first = len(self.means) == 1
        self.means.append(loss if first else SMOOTH * self.means[-1] + (1 - SMOOTH) * loss)
        now = len(self.means) - 1
        if now - self.changed < LOOK_BACK or now <= LOOK_BACK:
            return
        if self.means[now] >= self.means[now + 1 - LOOK_BACK]:
            self.levels, self.changed = min(2 * self.levels, LEVELS), now


def by_client(levels: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Levels of each client, for the variance that the same levels for all would have.

    Theorem 1 of the paper: sqrt(a / b) w^(2/3), where w are the weights in the mean, a is the sum
    of w^(2/3), and b that of (w / levels)^2.
    """
    total = sum(sizes.values())
    weights = {name: size / total for name, size in sizes.items()}
    a = sum(w ** (2 / 3) for w in weights.values())
    b = sum((w / levels) ** 2 for w in weights.values())
    return {n: max(1, round(math.sqrt(a / b) * w ** (2 / 3))) for n, w in weights.items()}


def clients_of(data, seed: int):
    """Clients of different sizes: log-normal, as the writers of FEMNIST are unlike in size."""
    random = np.random.default_rng([seed, 1])
    shares = random.lognormal(0, 1, CLIENTS)
    ends = np.cumsum(shares / shares.sum() * (len(data.y_train) - 2 * CLIENTS)).astype(int)
    sizes = np.diff([0, *ends]) + 2
    order = torch.from_numpy(random.permutation(len(data.y_train)))
    parts = order[: sizes.sum()].split(sizes.tolist())
    return {f"client_{k}": (data.x_train[p], data.y_train[p]) for k, p in enumerate(parts)}


def measure(name: str, seed: int, quick: bool) -> Values:
    data = load("digits", strangers=seed).flat()
    clients, model = clients_of(data, seed), splitnn_mlp(64, seed=seed)
    channel = Channel() if name == FLOAT32 else Leveled(seed)
    doubling, rounds = Doubling(), 2 if quick else ROUNDS
    local = Local(batch_size=10, lr=0.05, epochs=1)
    records = fedavg(model, clients, channel, rounds=rounds, cohort=COHORT, local=local, seed=seed)
    for number in range(rounds):
        drawn = draw_cohort([*clients], COHORT, seed, number)
        if name == STATIC:
            channel.levels = dict.fromkeys(drawn, LEVELS)
        elif name == ADAPTIVE:
            sizes = {client: len(clients[client][1]) for client in drawn}
            channel.levels = by_client(doubling.levels, sizes)
        record = next(records)
        doubling(float(record["loss"]))
    server = Party("server", model, loss_fn=nn.NLLLoss())
    score = evaluate([server], data.x_test, data.y_test)
    sent = {key: float(record[key]) for key in ("nbytes", "nbytes_up", "nbytes_down")}
    return {"accuracy": float(score["accuracy"]), "levels": float(doubling.levels), **sent}


def judge(runs: Runs) -> Finding:
    """The least factor of the paper's five tasks, and as good as float32."""
    up = runs.fewer(ADAPTIVE, STATIC, "nbytes_up")
    total = runs.fewer(ADAPTIVE, STATIC)
    lost = runs.points(ADAPTIVE, FLOAT32)
    levels = runs.all(ADAPTIVE, "levels")
    words = (
        f"Against fixed levels, {on_seeds(runs)}: {times(up)} times fewer bytes up, "
        f"{times(total, '.2f')} both ways, {runs.in_points(ADAPTIVE, STATIC)} points. "
        f"Against float32: {spread(lost, '+.2f')} points; fixed levels send "
        f"{times(runs.fewer(STATIC, FLOAT32, 'nbytes_up'))} times fewer bytes up. The factors of "
        "the table are those against float32. The quoted sentence itself speaks of the way up."
    )
    if max(levels) == 1:
        words += (
            " The mean loss never stops falling, so that the levels stay at 1 and never double: of "
            "the two rules only that of small clients is tested."
        )
    score = rule.at_least(lost, -rule.POINTS)
    verdict = judged(score, rule.saves(up, 1.19))
    factors = (times(runs.fewer(ADAPTIVE, FLOAT32, key)) for key in ("nbytes_up", "nbytes"))
    return Finding(verdict, words, *factors)


CLAIM = Claim(
    title="DAdaQuant: 1.2 to 2.8 times less than fixed levels, and 4,772 times less than float32",
    group="federated learning",
    says="Twice the levels whenever the loss stops falling, and fewer levels for small clients: "
    "1.2 to 2.8 times less on the way up than the same quantizer with fixed levels, on five "
    "tasks, and 4,772 times less than float32 on FEMNIST, where fixed levels give 2,809; no "
    "accuracy is lost.",
    source="Hönig et al. 2021, arXiv 2111.00465, section 3 and table 2, in a conversion to text",
    known="read",
    quote="Our experiments show that DAdaQuant consistently improves client→server compression, "
    "outperforming the strongest non-adaptive baselines by up to 2.8×.",
    ours="Digits, 40 clients of log-normal sizes, ten in a round, 40 rounds, the network of "
    "notebook 01 (97,290 parameters; the paper's has 6.6 million). Rounding to multiples of the "
    "largest value and the two rules are the paper's; the lossless coder is ours. Levels from 1 to "
    f"{LEVELS} and fixed {LEVELS}. The verdict compares with 1.19 times against fixed levels, the "
    "least factor of the five tasks.",
    judge=judge,
    seeds=range(5),
    measures={name: partial(measure, name) for name in (FLOAT32, STATIC, ADAPTIVE)},
)
