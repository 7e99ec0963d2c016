"""What is compared on CIFAR-10 (JPEG copies)."""

import hashlib
import json
from dataclasses import asdict, dataclass

from experiments.send_data.pictures import Form

SMALL, LARGE = (16, 32, 64), (48, 96, 192)
"""Widths: 26,378 parameters, and a network that only a receiver with all pictures trains."""


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
        passes = "1 pass" if self.passes == 1 else f"{self.passes} passes"
        kept = f"{100 * self.up:g} % up, {100 * self.down:g} % down"
        return f"{self.num_owners} owners average, {passes} a round, {kept}"


@dataclass(frozen=True)
class Sent:
    """Owners send pictures to one place, which trains there for as long as it likes."""

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
        larger = "" if self.widths == SMALL else ", a larger network"
        return f"{self.num_sent:,} pictures, {self.form}{larger}"


Setting = Together | Sent

ORIGINAL = Form()
FORMS = [ORIGINAL, Form(quality=30), Form(quality=10), Form(16, 50), Form(quality=5)]
TOGETHER: list[Setting] = [
    Together(5, 2, 300, 0.01, 0.02),
    Together(5, 2, 100, 0.04, 0.04),
    Together(10, 1, 300, 0.01, 0.02),
]
SENT: list[Setting] = [
    *(Sent(ORIGINAL, n) for n in (50_000, 25_000, 12_000, 6000, 3000, 1000)),
    *(Sent(form, 50_000) for form in FORMS[1:4]),
    *(Sent(form, n) for form in FORMS[2:4] for n in (6000, 2000)),
    *(Sent(ORIGINAL, n, LARGE, samples_seen=1_000_000) for n in (1000, 6000, 50_000)),
]
BRIEFLY: list[Setting] = [
    *(
        Sent(ORIGINAL, n, samples_seen=88_000, most_passes=40, batch_size=50, lr=0.05)
        for n in (760, 2200)
    ),
    *(
        Sent(Form(quality=q), n, samples_seen=30 * n, most_passes=30, batch_size=50, lr=0.05)
        for q, n in ((5, 4700), (10, 10_000), (10, 20_000))
    ),
    Sent(Form(quality=10), 2900, samples_seen=88_000, most_passes=30, batch_size=50, lr=0.05),
]
"""Few steps, for a processor core: the receiver is weaker than one that trains for longer. The
first two take five times the bytes at which averaging reaches 50 and 60 %; the third and the last
take as many bytes as the first, with more pictures of a lower quality; the fourth and fifth take
more, to find out how many bytes of pictures bring what averaging ends with."""
ALL: list[Setting] = [TOGETHER[0], *SENT[:9], *TOGETHER[1:], *SENT[9:], *BRIEFLY]
"""In the order in which they are run."""


def key(setting: Setting, seed: int) -> str:
    """Of a run in the file of results."""
    words = json.dumps([type(setting).__name__, asdict(setting), seed], sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()[:16]
