"""The language lab: workers far apart train one small GPT, and write a line of text now and then.

Display a `LanguageLab` as the last line of a cell and press Start; or call its methods. Not here:
what it trains (train_language.py), and what all labs share (lab.py).
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from fltoolkit.federated.client import check_count
from fltoolkit_course.labs.board import Board, Control, Plot, num_bits, share
from fltoolkit_course.labs.panel import DisplayedLab
from fltoolkit_course.labs.train_language import LETTERS, LanguageTraining
from fltoolkit_research.data.text import Text, load_text

_LOSS = "test loss [nats per character], thin: a worker alone"


class LanguageLab(DisplayedLab):
    """`diloco` with a small GPT: how often, in how many bits, and with how much outer momentum?

    Workers with equal parts of a text take inner steps on their own (batches of 8 windows,
    gradients clipped at 1, an optimizer that each of them keeps), and send how far they have come
    through a server. A record is a round. Moves, scripts and the right plot count inner steps, and
    a run is a number of steps, so all runs read equally many characters, however long rounds are.

    Every ten steps or more, at the end of a round, the model is tested and writes a line of text.
    Beside it trains the null model that every saving must beat: the first worker alone, with the
    same optimizer, steps and batches, who sends nothing.

    Settings:

    - ``inner_steps`` (H), ``bits``, ``top_k`` (1: off) and ``momentum`` (outer, Nesterov, with a
      learning rate of 1) act on the running training, from the next round on. A change of
      ``bits`` or ``top_k`` makes a new codec for both directions. Its residuals begin at zero, so
      what error feedback had kept for later rounds is never sent. A momentum of 0 forgets the
      velocity
    - ``optimizer`` (inner, "AdamW" or "Muon") and ``seed`` act at the next Start

    Args:
        text: a name for `fltoolkit_research.data.load_text`, or a Text of your own.
        levels: losses to compare with as dotted lines, by name, e.g. that of an n-gram.
        values: ``num_steps``, how long a run is, in inner steps of each worker; ``num_workers``,
            among whom the windows of the text are divided; ``width`` and ``context``, the size of
            the GPT, which has two layers; ``prompt``, what the model goes on from when it writes;
            and the first values of the settings.

    Records are those of `diloco`, where ``step`` counts the steps of all rounds, also if their
    length changes. Those with a test also hold ``test_loss`` and ``alone`` (nats per character, of
    the model and of the worker alone) and ``text``.
    """

    title, training = "Language lab", LanguageTraining
    num_steps: int
    num_workers: int
    prompt: str
    settings: Mapping[str, Control] = {
        "inner_steps": Control("inner steps [per round]", (1, 2, 5, 10, 20, 50), "now"),
        "bits": Control("messages [bits per value]", (1, 2, 4, 8, 32), "now", num_bits),
        "top_k": Control("top-k [share of values]", (0.01, 0.02, 0.1, 0.3, 1), "now", share),
        "momentum": Control("outer momentum", (0.0, 0.3, 0.6, 0.9), "now", "{:g}".format),
        "optimizer": Control("inner optimizer", ("AdamW", "Muon"), "at start"),
        "seed": Control("seed", tuple(range(10)), "at start"),
    }

    def __init__(
        self,
        text: Text | str = "topics",
        *,
        levels: Mapping[str, float] | None = None,
        **values: Any,
    ):
        source = ""
        if isinstance(text, str):
            source = f'from fltoolkit_research.data import load_text\n\ntext = load_text("{text}")'
            text = load_text(text)
        super().__init__(text, source, **values)
        check_count("num_steps", self.num_steps)
        check_count("num_workers", self.num_workers)
        text.encode(self.prompt)  # raises an error for characters that the text does not have
        if not 0 < len(self.prompt) < LETTERS:
            raise ValueError(
                f"prompt={self.prompt!r}: 1 to {LETTERS - 1} characters, from which the model goes "
                "on"
            )
        if wrong := {name: loss for name, loss in (levels or {}).items() if not isfinite(loss)}:
            raise ValueError(f"levels={wrong}: a line needs a finite loss")
        lines = tuple((levels or {}).items())
        self.board = Board(
            plots=(
                Plot("test_loss", "nbytes", "alone", _LOSS, log_x=True, zero=False, levels=lines),
                Plot("test_loss", "step", "alone", _LOSS, zero=False, levels=lines),
            ),
            kinds={"update": "up: updates", "model": "down: means"},
            record="round",
            result="test_loss",
            sample="text",
        )

    def resets_residuals(self, key: str, values: Mapping[str, Any]) -> bool:
        """Whether a change of ``key`` replaces a codec that has residuals."""
        return key in ("bits", "top_k") and (values["bits"] < 32 or values["top_k"] < 1)
