"""What is compared on CIFAR-10 (JPEG copies)."""

from dataclasses import asdict, dataclass

from experiments.runs import digest
from experiments.send_data.pictures import Form

SMALL = (16, 32, 64)
"""Widths: 26,378 parameters."""


@dataclass(frozen=True)
class Together:
    """Owners average a small network; the update and the model go as STC, coded."""

    num_owners: int
    passes: int  # over an owner's pictures in a round
    rounds: int
    up: float  # the share of values that an update keeps
    down: float  # the same of the model's difference
    batch_size: int = 100
    lr: float = 0.1
    slow: float = 30.0  # rounds after which the learning rate has sunk to 1 / sqrt(2)
    widths: tuple[int, int, int] = SMALL
    num_samples: int = 50_000
    num_test: int = 10_000

    @property
    def name(self) -> str:
        """In words."""
        kept = f"{100 * self.up:g} % up, {100 * self.down:g} % down"
        return f"{self.num_owners} owners average, {self.passes} passes a round, {kept}"

    def key(self, _task: None, seed: int) -> str:
        """The same for the same run."""
        return digest([type(self).__name__, asdict(self), seed])


@dataclass(frozen=True)
class Sent:
    """Owners send pictures to one place, which trains there."""

    form: Form
    num_sent: int
    widths: tuple[int, int, int] = SMALL
    samples_seen: int = 3_000_000
    most_passes: int = 600
    batch_size: int = 250
    lr: float = 0.2
    num_samples: int = 50_000
    num_test: int = 10_000

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.num_sent:,} pictures, {self.form}"

    key = Together.key


Setting = Together | Sent

ORIGINAL = Form()
BRIEFLY = {"most_passes": 30, "batch_size": 50, "lr": 0.05}
"""Few steps, for a processor core: the receiver is weaker than one that trains for longer."""
SETTINGS: list[Setting] = [
    Together(5, 2, 300, 0.01, 0.02),  # a time limit ended the stored runs after 89 or 90 rounds
    *(Sent(ORIGINAL, n) for n in (50_000, 25_000)),
    # five times the bytes at which averaging reaches 50 and 60 %
    *(Sent(ORIGINAL, n, samples_seen=88_000, **BRIEFLY | {"most_passes": 40}) for n in (760, 2200)),
    # as many bytes as 760 originals, and then more: what do bytes of pictures bring?
    *(
        Sent(Form(quality=q), n, samples_seen=30 * n, **BRIEFLY)
        for q, n in ((5, 4700), (10, 10_000), (10, 20_000))
    ),
    Sent(Form(quality=10), 2900, samples_seen=88_000, **BRIEFLY),
]
"""In the order in which they are run."""
