"""The tasks of the cup: who has what, which score is wanted, and what a run may use.

Everything about a run is drawn from a secret seed after the entry was hashed: who has which
samples, the hidden test part, how images are turned or mirrored, which number stands for which
class or character. So nothing that an entry knows of the data beforehand fits the run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from fltoolkit.data.datasets import PIXEL_STATISTICS, load
from fltoolkit.data.partitions import partition_dirichlet
from fltoolkit_contest.pipes import Array
from fltoolkit_research.data.partitions import partition_shards
from fltoolkit_research.data.text import load_text, speeches

LEAGUES = {
    "open": "anything may be sent, also the data",
    "sums": "the server gets sums of whole numbers modulo 2^b, and nothing else",
    "split": "features at one party, labels at the other; what crosses is attacked",
}
CONTEXT = 64  # characters that are given before the one to predict


@dataclass(frozen=True)
class Drawn:
    """One run's data: each owner's samples, the server's labels (split), the hidden part.

    >>> drawn = TRACKS["digits"].draw(0, "open")
    >>> len(drawn.owners), drawn.server, drawn.hidden[0].shape
    (5, None, (388, 8, 8))
    """

    owners: list[tuple[Array, Array | None]]
    server: Array | None
    hidden: tuple[Array, Array]


@dataclass(frozen=True)
class Track:
    """A task of the cup."""

    name: str
    about: str
    leagues: tuple[str, ...]
    target: float
    num_owners: int
    shape: tuple[int, ...]  # of one sample
    draw: Callable[[int, str], Drawn]
    metric: str = "accuracy"  # or "loss" (nats)
    num_classes: int = 10
    cpu_seconds: float = 600.0  # of all parties of a run together
    per_process: int = 1  # owners in one process, where there are many
    exchanges: int = 10_000  # the largest number of exchanges in a run

    @property
    def wanted(self) -> str:
        """The target in words."""
        if self.metric == "accuracy":
            return f"accuracy of at least {100 * self.target:g} %"
        return f"loss of at most {self.target:g} nats per character"


@lru_cache(maxsize=1)
def _images(name: str, strangers: int | None = None) -> tuple[Array, Array, int]:
    """All images with pixels in [0, 1], their classes, and how many of them are for training."""
    data = load(name, strangers=strangers)
    (mean,), (deviation,) = PIXEL_STATISTICS[name]
    steps = 16 if name == "digits" else 255
    x = torch.cat([data.x_train, data.x_test])[:, 0].mul(deviation).add(mean)
    y = torch.cat([data.y_train, data.y_test])
    return x.mul(steps).round().div(steps).numpy().astype(np.float32), y.numpy(), len(data.y_train)


def _turned(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Images turned and mirrored alike, and classes with other numbers."""
    x = np.rot90(x, int(rng.integers(4)), axes=(1, 2))
    x = x[:, :, ::-1] if rng.integers(2) else x
    return np.ascontiguousarray(x), rng.permutation(10)[y]


def _draw_digits(seed: int, league: str) -> Drawn:
    rng = np.random.default_rng([seed, 0])
    x, y, num_train = _images("digits", strangers=int(rng.integers(2**32)))
    x, y = _turned(x, y, rng)
    hidden = num_train + rng.permutation(len(y) - num_train)  # all images of three people
    rest = rng.permutation(num_train)  # those of the others are stored writer by writer
    parts = partition_dirichlet(torch.from_numpy(y[rest]), 5, alpha=1.0, seed=seed)
    return _dealt(x, y, hidden, [rest[part.numpy()] for part in parts], league)


def _draw_mnist(seed: int, league: str) -> Drawn:
    rng = np.random.default_rng([seed, 0])
    x, y, num_train = _images("mnist")
    x, y = _turned(x, y, rng)
    hidden = num_train + rng.permutation(len(y) - num_train)[:2000]
    if league == "split":
        parts = [torch.from_numpy(rng.permutation(num_train))]
    else:
        parts = partition_shards(torch.from_numpy(y[:num_train]), 100, seed=seed)
    return _dealt(x, y, hidden, [part.numpy() for part in parts], league)


def _dealt(x: Array, y: Array, hidden: Array, parts: list[Array], league: str) -> Drawn:
    if league == "split":
        rows = np.concatenate(parts)
        return Drawn([(x[rows], None)], y[rows], (x[hidden], y[hidden]))
    return Drawn([(x[part], y[part]) for part in parts], None, (x[hidden], y[hidden]))


def _draw_shakespeare(seed: int, league: str) -> Drawn:
    rng = np.random.default_rng([seed, 0])
    text = load_text("shakespeare")
    number = rng.permutation(len(text.alphabet))
    roles = [
        number[text.encode(said).numpy()] for said in speeches(text.decode(text.train)).values()
    ]
    owners: list[list[Array]] = [[], [], [], []]
    for role in rng.permutation(len(roles)):  # to the owner who has least so far
        min(owners, key=lambda mine: sum(map(len, mine))).append(roles[role])
    joined = [np.concatenate(mine).astype(np.uint8) for mine in owners]
    test = number[text.test.numpy()].astype(np.uint8)
    places = places_of(len(test), rng)
    hidden = np.stack([test[place : place + CONTEXT] for place in places])
    return Drawn([(mine, None) for mine in joined], None, (hidden, test[places + CONTEXT]))


def places_of(length: int, rng: np.random.Generator) -> Array:
    """Where the hidden windows of a text begin; none shows what comes after another one."""
    first = int(rng.integers(CONTEXT + 1))
    return rng.permutation(np.arange(first, length - CONTEXT, CONTEXT + 1))[:2000]


_TRACKS = (
    Track(
        "digits",
        "about 1,400 images of 8 x 8 pixels by eleven people at 5 owners, each with a class mix of "
        "its own; hidden: all images of three other people",
        ("open", "sums", "split"),
        target=0.9,
        num_owners=5,
        shape=(8, 8),
        draw=_draw_digits,
        cpu_seconds=60.0,
    ),
    Track(
        "mnist",
        "60,000 images of 28 x 28 pixels at 100 owners, two shards by class each",
        ("open", "sums"),
        target=0.96,
        num_owners=100,
        shape=(28, 28),
        draw=_draw_mnist,
        per_process=20,
    ),
    Track(
        "mnist_split",
        "60,000 images of 28 x 28 pixels at one party, their labels at the other",
        ("split",),
        target=0.97,
        num_owners=1,
        shape=(28, 28),
        draw=_draw_mnist,
    ),
    Track(
        "shakespeare",
        "the speeches of Shakespeare's roles at 4 owners; predict the next character",
        ("open", "sums"),
        target=2.05,
        num_owners=4,
        shape=(CONTEXT,),
        draw=_draw_shakespeare,
        metric="loss",
        num_classes=65,
    ),
)
TRACKS: dict[str, Track] = {track.name: track for track in _TRACKS}
"""The tracks by name."""


def chosen(track: str, league: str) -> tuple[Track, str]:
    """The track of this name; ValueError if there is none, or if it has no such league."""
    if track not in TRACKS:
        raise ValueError(f"track={track!r}: choose one of {', '.join(TRACKS)}")
    if league not in TRACKS[track].leagues:
        raise ValueError(f"league={league!r}: {track} has {', '.join(TRACKS[track].leagues)}")
    return TRACKS[track], league
