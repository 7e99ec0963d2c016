"""The language lab: workers far apart train one small GPT, and write a line of text now and then.

Display a `LanguageLab` as the last line of a cell and press Start; or call its methods.
Here: what this lab trains, and the script of a run. What all labs share is in steering.py.
"""

from collections.abc import Collection, Mapping
from math import isfinite
from typing import Any

from fltoolkit.codecs.base import Codec, Identity
from fltoolkit.codecs.codebooks import LloydMax
from fltoolkit.codecs.coders import Entropy
from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit.codecs.sparse import TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.codecs.wrappers import ErrorFeedback
from fltoolkit.federated.client import check_count
from fltoolkit_course.labs.board import Board, Control, Plot, num_bits, share
from fltoolkit_course.labs.lab import Lab
from fltoolkit_research.data.text import Text, load_text

BATCH_SIZE = 8
LR = {"AdamW": 1e-2, "Muon": 0.04}
_BOTH_WAYS = ("update", "model")
STEPS_BETWEEN_TESTS, NUM_TEST_WINDOWS = 10, 200
LETTERS = 54  # of a text: a line of the picture
_CODEC = ("bits", "top_k")  # the settings that make the codec of all messages
_START = {
    "inner_steps": 10,
    "bits": 32,
    "top_k": 1,
    "momentum": 0.0,
    "optimizer": "AdamW",
    "seed": 0,
}
_LOSS = "test loss [nats per character], thin: a worker alone"


_IMPORTS = """
from functools import partial

import torch

from fltoolkit import Channel, History, Party, evaluate
from fltoolkit.codecs import Entropy, ErrorFeedback, Identity, LloydMax, Pipeline, Quantize, TopK
from fltoolkit_research.data import load_text
from fltoolkit.data import partition_iid
from fltoolkit_research.federated import AllGather, diloco, muon_for
from fltoolkit.federated import Fleet, Local
from fltoolkit_research.models import generate, gpt

"""
_START_CODE = """
x, y = text.windows({context})
x_test, y_test = (t[:{num_test}] for t in text.windows({context}, "test"))
parts = partition_iid(torch.zeros(len(x), dtype=torch.int64), {num_workers}, seed={seed})
workers = {{f"worker_{{k}}": (x[part], y[part]) for k, part in enumerate(parts)}}
only = {{"worker_0": workers["worker_0"]}}
model, alone = (
    gpt(len(text.alphabet), context={context}, width={width}, seed={seed}) for _ in range(2)
)
inner = {inner}
outer = torch.optim.SGD(model.parameters(), lr=1.0)
codec = {codec!r}
channel = Channel({{"update": codec, "model": codec}})
fleet, own_fleet, inner_steps = Fleet(workers), Fleet(only), {inner_steps}


def set_momentum(momentum):
    \"\"\"Nesterov momentum from the next step on; 0 switches it off and forgets the velocity.\"\"\"
    outer.param_groups[0].update(momentum=momentum, nesterov=momentum > 0)
    if not momentum:
        outer.state.clear()


def test():
    \"\"\"Nats per character of the model and of the worker alone, and a line of text.\"\"\"
    judges = (Party("judge", module, loss_fn=torch.nn.NLLLoss()) for module in (model, alone))
    losses = [evaluate([judge], x_test, y_test)["test_loss"] for judge in judges]
    prompt, random = text.encode({prompt!r}), torch.Generator().manual_seed({seed})
    ids = generate(model, prompt, {more}, context={context}, generator=random)
    return {{"test_loss": losses[0], "alone": losses[1], "text": text.decode(ids)}}


def rounds():
    \"\"\"One call of `diloco` per round, so that each may have another number of inner steps.\"\"\"
    round_ = step = tested = 0
    while step < {num_steps}:
        steps = min(inner_steps, {num_steps} - step)
        local = Local({batch}, optimizer=inner, steps=steps, clip_norm=1.0, keep_state=True)
        same = {{"rounds": range(round_, round_ + 1), "local": local, "seed": {seed}}}
        (record,) = diloco(model, fleet, channel, outer=outer, **same)
        list(diloco(alone, own_fleet, Channel(), exchange=AllGather(), **same))
        round_, step = round_ + 1, step + steps
        record = {{**record, "step": step}}
        if step - tested >= {between} or step == {num_steps}:
            tested = step
            record |= test()
        yield record


set_momentum({momentum})
records = rounds()
"""


def message_codec(bits: int, top_k: float) -> Codec:
    """The codec of updates and of their mean: a share ``top_k`` of the values, ``bits`` for each.

    Up to 4 bits the levels are those of `LloydMax`; with 8 bits they are evenly spaced, because a
    list of 256 levels for each tensor would cost more than it saves. `ErrorFeedback` adds what was
    lost to the next message. With 32 bits and all values nothing is lost: the codec is `Identity`.
    """
    stages: list[Stage] = [TopK(top_k)] if top_k < 1 else []
    if bits < 32:
        stages.append(LloydMax(bits) if bits <= 4 else Quantize(bits))
    return ErrorFeedback(Pipeline(*stages, Entropy())) if stages else Identity()


class LanguageLab(Lab):
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
        num_steps: how long a run is, in inner steps of each worker.
        num_workers: among whom the windows of the text are divided.
        width, context: the size of the GPT, which has two layers.
        prompt: what the model goes on from when it writes.
        levels: losses to compare with as dotted lines, by name, e.g. that of an n-gram.
        values: the first values of the settings.

    Records are those of `diloco`, where ``step`` counts the steps of all rounds, also if their
    length changes. Those with a test also hold ``test_loss`` and ``alone`` (nats per character, of
    the model and of the worker alone) and ``text``.

    >>> from fltoolkit_research.data import Text
    >>> spell = Text.of(100 * "abracadabra ", "spell")
    >>> lab = LanguageLab(spell, num_steps=6, inner_steps=2, width=8, context=8, prompt="a")
    >>> run = lab.run(1)
    >>> lab.set("bits", 2)
    >>> lab.run().moves
    [Move(step=2, key='bits', value=2)]
    >>> [record["step"] for record in lab.current.history]
    [2, 4, 6]
    """

    title, imports = "Language lab", _IMPORTS
    settings: Mapping[str, Control] = {
        "inner_steps": Control("inner steps [per round]", (1, 2, 5, 10, 20, 50), "now"),
        "bits": Control("messages [bits per value]", (1, 2, 4, 8, 32), "now", num_bits),
        "top_k": Control("top-k [share of values]", (0.01, 0.02, 0.1, 0.3, 1), "now", share),
        "momentum": Control("outer momentum", (0.0, 0.3, 0.6, 0.9), "now", "{:g}".format),
        "optimizer": Control("inner optimizer", tuple(LR), "at start"),
        "seed": Control("seed", tuple(range(10)), "at start"),
    }

    def __init__(
        self,
        text: Text | str = "topics",
        *,
        num_steps: int = 400,
        num_workers: int = 4,
        width: int = 32,
        context: int = 32,
        prompt: str = "The ",
        levels: Mapping[str, float] | None = None,
        **values: Any,
    ):
        super().__init__(**{**_START, **values})
        check_count("num_steps", num_steps)
        check_count("num_workers", num_workers)
        if wrong := {name: loss for name, loss in (levels or {}).items() if not isfinite(loss)}:
            raise ValueError(f"levels={wrong}: a line needs a finite loss")
        lines = tuple((levels or {}).items())
        plots = [
            Plot("test_loss", x, "alone", _LOSS, log_x=x == "nbytes", zero=False, levels=lines)
            for x in ("nbytes", "step")
        ]
        self.board = Board(
            plots=(plots[0], plots[1]),
            kinds={"update": "up: updates", "model": "down: means"},
            record="round",
            result="test_loss",
            sample="text",
        )
        named = isinstance(text, str)
        self.text = load_text(text) if isinstance(text, str) else text
        self.text.encode(prompt)  # raises an error for characters that the text does not have
        if not 0 < len(prompt) < LETTERS:
            raise ValueError(
                f"prompt={prompt!r}: 1 to {LETTERS - 1} characters, from which the model goes on"
            )
        code = f'load_text("{text}")' if named else "text  # the Text of the lab: put it here"
        self.given = {"text": (self.text, code)}
        self.num_steps, self.num_workers, self.prompt = num_steps, num_workers, prompt
        self.width, self.context = width, context

    def constants(self) -> dict[str, Any]:
        """The sizes of a run, of its model and of its tests."""
        names = ("num_steps", "num_workers", "prompt", "width", "context")
        return {name: getattr(self, name) for name in names}

    def write_start(self, values: Mapping[str, Any], moved: Collection[str]) -> str:
        """Workers, models and channel; the same code for all moves."""
        inner = {
            "Muon": f"muon_for(model, lr={LR['Muon']})",
            "AdamW": f"partial(torch.optim.AdamW, lr={LR['AdamW']})",
        }
        return _START_CODE.format(
            inner=inner[values["optimizer"]],
            codec=_codec(values),
            num_test=NUM_TEST_WINDOWS,
            batch=BATCH_SIZE,
            between=STEPS_BETWEEN_TESTS,
            more=LETTERS - len(values["prompt"]),
            **values,
        )

    def write_move(self, key: str, values: Mapping[str, Any]) -> str:
        """One line that changes the number of inner steps, the codec or the momentum."""
        if key == "inner_steps":
            return f"inner_steps = {values[key]}"
        if key == "momentum":
            return f"set_momentum({values[key]})"
        return f"for kind in {_BOTH_WAYS}: channel.change_codec(kind, {_codec(values)!r})"

    def resets_residuals(self, key: str, values: Mapping[str, Any]) -> bool:
        """Whether a change of ``key`` replaces a codec that has residuals."""
        return key in _CODEC and _codec(values) != Identity()

    def total(self, names: Mapping[str, Any]) -> int:
        """The number of inner steps."""
        return self.num_steps


def _codec(values: Mapping[str, Any]) -> Codec:
    return message_codec(*(values[key] for key in _CODEC))
