"""What the language lab trains. The script of a run is this file, with the run's settings below.

Not here: settings to choose from, and what is drawn of a run (language.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from fltoolkit import Channel, Party, evaluate
from fltoolkit.codecs import Codec, ErrorFeedback, Identity, Pipeline, Quantize, TopK
from fltoolkit.codecs.stage import Stage
from fltoolkit.data import partition_iid
from fltoolkit.federated import Fleet, Local
from fltoolkit.history import Record
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.codecs.codebooks import LloydMax
from fltoolkit_research.data import Text
from fltoolkit_research.federated import AllGather, diloco, muon_for
from fltoolkit_research.models import generate, gpt

STEPS_BETWEEN_TESTS, NUM_TEST_WINDOWS = 10, 200
LETTERS = 54  # of a text that the model writes


@dataclass
class LanguageTraining:
    """Workers train one GPT by DiLoCo; beside it trains the first of them alone, who sends nothing.

    Bits, top-k, momentum and the number of inner steps may change between two rounds.
    """

    text: Text
    num_steps: int = 400
    num_workers: int = 4
    width: int = 32
    context: int = 32
    prompt: str = "The "
    inner_steps: int = 10
    bits: int = 32
    top_k: float = 1
    momentum: float = 0.0
    optimizer: str = "AdamW"
    seed: int = 0

    def __post_init__(self) -> None:
        self.model, self.alone = (
            gpt(len(self.text.alphabet), context=self.context, width=self.width, seed=self.seed)
            for _ in range(2)
        )
        self.outer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.channel = Channel({"update": self.codec(), "model": self.codec()})
        self.total = self.num_steps
        self.change("momentum", self.momentum)

    def codec(self) -> Codec:
        """The codec of updates and of their mean; nothing is lost with 32 bits and all values.

        Up to 4 bits the levels are those of `LloydMax`; with 8 bits they are evenly spaced, because
        a list of 256 levels for each tensor would cost more than it saves. `ErrorFeedback` adds
        what was lost to the next message.
        """
        stages: list[Stage] = [TopK(self.top_k)] if self.top_k < 1 else []
        if self.bits < 32:
            stages.append(LloydMax(self.bits) if self.bits <= 4 else Quantize(self.bits))
        return ErrorFeedback(Pipeline(*stages, ContextEntropy())) if stages else Identity()

    def records(self) -> Iterator[Record]:
        """One call of `diloco` per round, so that each may have another number of inner steps."""
        x, y = self.text.windows(self.context)
        parts = partition_iid(
            torch.zeros(len(x), dtype=torch.int64), self.num_workers, seed=self.seed
        )
        workers = {f"worker_{k}": (x[part], y[part]) for k, part in enumerate(parts)}
        fleet, own_fleet = Fleet(workers), Fleet({"worker_0": workers["worker_0"]})
        inner: Any = partial(torch.optim.AdamW, lr=1e-2)
        if self.optimizer == "Muon":
            inner = muon_for(self.model, lr=0.04)
        round_ = step = tested = 0
        while step < self.num_steps:
            steps = min(self.inner_steps, self.num_steps - step)
            local = Local(8, optimizer=inner, steps=steps, clip_norm=1.0, keep_state=True)
            same: Any = {"rounds": range(round_, round_ + 1), "local": local, "seed": self.seed}
            (record,) = diloco(self.model, fleet, self.channel, outer=self.outer, **same)
            list(diloco(self.alone, own_fleet, Channel(), exchange=AllGather(), **same))
            round_, step = round_ + 1, step + steps
            record = {**record, "step": step}
            if step - tested >= STEPS_BETWEEN_TESTS or step == self.num_steps:
                tested = step
                record |= self.test()
            yield record

    def test(self) -> Record:
        """Nats per character of the model and of the worker alone, and a line of text."""
        x, y = (part[:NUM_TEST_WINDOWS] for part in self.text.windows(self.context, "test"))
        model, alone = (
            evaluate([Party("judge", module, loss_fn=torch.nn.NLLLoss())], x, y)["test_loss"]
            for module in (self.model, self.alone)
        )
        ids = generate(
            self.model,
            self.text.encode(self.prompt),
            LETTERS - len(self.prompt),
            context=self.context,
            generator=torch.Generator().manual_seed(self.seed),
        )
        return {"test_loss": model, "alone": alone, "text": self.text.decode(ids)}

    def change(self, key: str, value: Any) -> None:
        """Act from the next round on; a momentum of 0 forgets the velocity."""
        setattr(self, key, value)
        if key == "momentum":
            self.outer.param_groups[0].update(momentum=value, nesterov=value > 0)
            if not value:
                self.outer.state.clear()
        elif key != "inner_steps":
            for kind in ("update", "model"):
                self.channel.change_codec(kind, self.codec())
