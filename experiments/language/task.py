"""What all parts of the language experiment share: text, model, schedule, loss on held-out text."""

import math
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from fltoolkit_research.data import Text, load_text
from fltoolkit_research.models import gpt

NOT_LIBRARY = {"test", "tests", "idlelib", "lib2to3", "ensurepip", "site-packages", "dist-packages"}
FRESH_SEEDS = (10, 11, 12, 13, 14)  # no setting was chosen by looking; 13 and 14 were run later


@dataclass(frozen=True)
class Task:
    """What is learned."""

    text: str = "shakespeare"
    context: int = 64
    layers: int = 2
    width: int = 64
    batch_size: int = 8
    workers: int = 4
    steps: int = 600


@dataclass(frozen=True)
class Cosine:
    """A factor of the learning rate: up for 20 steps, then down to a tenth like a cosine."""

    steps: int
    warm_up: int = 20

    def __call__(self, step: int) -> float:
        """The factor at a step, from 0 on."""
        rising = min(1.0, (step + 1) / self.warm_up)
        return rising * (0.1 + 0.45 * (1 + math.cos(math.pi * min(step, self.steps) / self.steps)))


@lru_cache(maxsize=1)
def text_of(name: str) -> Text:
    """The text, read once; "python" is the source code of this Python's library."""
    return python_sources() if name == "python" else load_text(name)


def python_sources(characters: int = 8_000_000) -> Text:
    """The first files of Python's own library, in the order of their names, as one text.

    Tests and the packages that pip installs are left out. The text differs from one version of
    Python to the next, so its SHA-256 stands beside each result. A character outside ASCII becomes
    a question mark.
    """
    folder, text = Path(sysconfig.get_paths()["stdlib"]), ""
    for path in sorted(folder.rglob("*.py")):
        if NOT_LIBRARY.isdisjoint(path.relative_to(folder).parts) and len(text) < characters:
            text += path.read_text(encoding="utf-8").encode("ascii", "replace").decode() + "\n"
    return Text.of(text[:characters], "python")


def model_of(task: Task, seed: int) -> nn.Sequential:
    """The model with its first weights."""
    return gpt(
        len(text_of(task.text).alphabet),
        context=task.context,
        num_layers=task.layers,
        width=task.width,
        seed=seed,
    )


def held_out(model: nn.Module, task: Task) -> float:
    """Nats a character on the held-out tenth of the text."""
    x, y = text_of(task.text).windows(task.context, "test")
    return nats(model, x, y)


def halves(model: nn.Module, task: Task) -> tuple[float, float]:
    """Nats a character on its first half, for choosing settings, and on its second, for results."""
    x, y = text_of(task.text).windows(task.context, "test")
    middle = len(x) // 2
    return nats(model, x[:middle], y[:middle]), nats(model, x[middle:], y[middle:])


@torch.no_grad()
def nats(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Nats per character of these windows, computed where the model is."""
    loss, device = nn.NLLLoss(reduction="sum"), next(model.parameters()).device
    pairs = zip(x.to(device).split(64), y.to(device).split(64), strict=True)
    total = sum(float(loss(model(a), b)) for a, b in pairs)
    return total / y.numel()
