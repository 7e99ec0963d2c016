"""The settings: codecs, noise and NoPeek, on two tasks."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from experiments.runs import digest
from fltoolkit.codecs import Codec, Float8, Pipeline, Quantize, TopK
from fltoolkit_research.codecs import RandTopK, Rotate
from fltoolkit_research.leakage import Noise

POSITIVE = 8  # the rare class of the binary task: this digit against the nine others
NUM_SHOWN = 10  # reconstructions that are kept for the figure, one of each digit


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
    "digits": Task("digits", 700, 700, 370, 60, 32, 0.06, 100, (0, 1, 2)),
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
        what |= {"prior": self.name} if self.part == PRIOR else {}
        return digest(what)


UP, DEFENCES, DOWN, BINARY = (
    "codecs on the activations",
    "defences",
    "codecs and noise on the gradients",
    f"the same where one label is rare: {POSITIVE} against the others",
)
PRIOR = "nothing is sent"
CLASS_MEAN, NEAREST = "no message: class mean", "no message: nearest of the attacker's images"
"""The mean of the attacker's images with the same label; and the nearest of all its images, which
only somebody who has the victim's can choose: a bound."""


def settings() -> list[Setting]:
    """All settings, in the order of the tables."""
    prior = (Setting(PRIOR, name) for name in (CLASS_MEAN, NEAREST))
    return [*prior, *activations(), *defences(), *gradients(DOWN), *gradients(BINARY)]


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
