"""Language models that were trained longer than a notebook may, and what their training sent.

They lie in stored/ beside this file, each as one message. Not here: their training, which is
``python -m experiments.language.readable`` in the repository.
"""

import copy
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fltoolkit.codecs.pipeline import Pipeline
from fltoolkit.codecs.quantize import Quantize
from fltoolkit_research.codecs.contexts import ContextEntropy
from fltoolkit_research.models import generate, gpt

__all__ = ["StoredModel", "stored_model", "stored_models"]

FOLDER, LIST = Path(__file__).parent / "stored", "models.json"


@dataclass(frozen=True)
class StoredModel:
    """A model that was read, and what is known of its training.

    >>> model = stored_model("Muon, every step, float32")
    >>> len(model.write("The ", 20))
    24
    """

    name: str
    network: nn.Sequential  # a `gpt`: log-probabilities [batch, characters of the alphabet, places]
    alphabet: str
    context: int
    nats: float  # per character of the held-out text, with the weights as they are stored
    nbytes: int  # sent while it was trained, by all workers and both directions
    times_text: float  # ``nbytes``, over the training text without loss

    def write(self, start: str, length: int, *, seed: int = 0, temperature: float = 1.0) -> str:
        """``start`` and ``length`` more characters, each drawn from what the model expects.

        Log-probabilities are divided by ``temperature``, which is above 0. At 1, each character is
        drawn as likely as the model says; below 1, likely ones are drawn more often. Raises
        ValueError if ``start`` holds a character that the text of the training lacks.
        """
        if strangers := sorted(set(start) - set(self.alphabet)):
            raise ValueError(
                f"{strangers[0]!r} is not among the {len(self.alphabet)} characters that "
                f"{self.name!r} has learned: start with letters of English"
            )
        ids = torch.tensor([self.alphabet.index(c) for c in start])
        random = torch.Generator().manual_seed(seed)
        sharper = copy.deepcopy(self.network)
        sharper.register_forward_hook(lambda module, inputs, logs: logs / temperature)
        new = generate(sharper, ids, length, context=self.context, generator=random)
        return "".join(self.alphabet[k] for k in new.tolist())


def stored_models() -> list[str]:
    """The names of the stored models.

    >>> stored_models()
    ['Muon, H = 10, 2 bits', 'Muon, alone', 'Muon, every step, float32']
    """
    return list(_list())


def stored_model(name: str) -> StoredModel:
    """Read a stored model. Raises ValueError if there is none of this name, or it is damaged."""
    models = _list()
    if name not in models:
        raise ValueError(f"no stored model {name!r}: choose from {', '.join(map(repr, models))}")
    about = models[name]
    message = (FOLDER / about["file"]).read_bytes()  # with a checksum, as each message has
    sizes = {"context": about["context"], "num_layers": about["layers"], "width": about["width"]}
    network = gpt(len(about["alphabet"]), **sizes, seed=0)
    network.load_state_dict(Pipeline(Quantize(8), ContextEntropy()).decode(message))
    times = about["nbytes"] / about["nbytes_text"]
    known = (about["alphabet"], about["context"], about["nats_as_stored"], about["nbytes"], times)
    return StoredModel(name, network.eval(), *known)


@cache
def _list() -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = json.loads((FOLDER / LIST).read_text(encoding="utf-8"))
    return models
