"""An experiment is one value: task, protocol, codecs, gate and seed.

Here: the settings, what is allowed of them, and their text forms. Not here: running them
(training.py, next), many of them (sweep.py), what they tell (analysis.py).
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fltoolkit.channel import KINDS
from fltoolkit.codecs.base import Codec
from fltoolkit.research.text import build
from fltoolkit.split.gates import Gate

__all__ = ["PROTOCOLS", "Experiment", "read"]

PROTOCOLS: dict[str, tuple[str, ...]] = {
    "split": ("through",),
    "relay": ("through",),
    "splitfed": ("through", "version"),
    "split_async": ("through", "moved", "delta"),
    "fedavg": ("local_epochs", "local_steps", "cohort_size", "prox", "masked", "wait_for"),
}
"""Each protocol's name, and which ``settings`` it knows."""

_FLAGS, _AMOUNTS = ("delta", "masked"), ("moved", "prox")  # the others are counts, one a codec

_MODELS = ("mlp", "cnn")
_PARTITION = re.compile(r"iid|shards\(\d+\)|dirichlet\(\d*\.?\d+\)")


@dataclass(frozen=True)
class Experiment:
    """All that a run depends on, as plain values: equal experiments send the same bytes.

    Codecs and the gate may be given as objects; they are kept as their ``repr``, which is read back
    by `fltoolkit.research.build`.

    >>> from fltoolkit import Pipeline
    >>> from fltoolkit.codecs.quantize import Quantize
    >>> eight = Experiment("split", codecs={"activations": Pipeline(Quantize(8))})
    >>> Experiment.from_json(eight.to_json()) == eight
    True
    """

    protocol: str = "split"  # one of PROTOCOLS
    data: str = "digits"  # a name for `fltoolkit.data.load`
    num_samples: int | None = None  # of the training samples; None: all
    validation: float = 0.0  # this share of them is held out and tested on, not the test set
    model: str = "mlp"  # `splitnn_mlp`, or "cnn": `mcmahan_cnn`
    cut: int = 4  # layers at the client; a federated client has them all
    num_clients: int = 1
    partition: str = "iid"  # or "shards(2)" or "dirichlet(0.1)": who has which samples
    rounds: int = 5  # split learning: passes over all data; fedavg: rounds
    evaluations: int = 1  # a round; more than one for split, relay and split_async only
    lr: float = 0.05  # plain SGD
    batch_size: int = 32
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the protocol
    codecs: Mapping[str, Any] = field(default_factory=dict)  # by kind, which tells the direction
    gate: Any = ""  # of split_async: when the client may be silent
    seed: int = 0
    name: str = field(default="", compare=False)  # for people; not in `key`

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol={self.protocol!r}: choose one of {', '.join(PROTOCOLS)}")
        if not isinstance(self.codecs, Mapping) or not isinstance(self.settings, Mapping):
            raise TypeError(
                f"codecs={self.codecs!r}, settings={self.settings!r}: give mappings, such as "
                "{'activations': 'Pipeline(Quantize(8))'}"
            )
        for each in fields(self):
            _check_type(each.name, getattr(self, each.name))
        codecs = {kind: _canonical(codec) for kind, codec in sorted(self.codecs.items())}
        settings = {
            key: _canonical(value) if key == "through" else value
            for key, value in sorted(self.settings.items())
        }
        object.__setattr__(self, "codecs", codecs)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "gate", _canonical(self.gate) if self.gate else "")
        for name in ("lr", "validation"):  # 1 and 1.0 are the same experiment
            object.__setattr__(self, name, float(getattr(self, name)))
        self._check()

    def __hash__(self) -> int:
        return hash(self.key)

    def _check(self) -> None:
        if strangers := self.settings.keys() - PROTOCOLS[self.protocol]:
            raise ValueError(
                f"settings {sorted(strangers)}: {self.protocol} knows "
                f"{', '.join(PROTOCOLS[self.protocol])}"
            )
        for name, value in self.settings.items():
            _check_setting(name, value)
        for name, least in (("rounds", 1), ("num_clients", 1), ("batch_size", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if not 0 < self.lr < math.inf or not 0 <= self.validation < 1:
            raise ValueError(
                f"lr={self.lr}, validation={self.validation}: lr is above 0, validation 0 or more "
                "and below 1"
            )
        if self.model not in _MODELS or not _PARTITION.fullmatch(self.partition):
            raise ValueError(
                f"model={self.model!r}, partition={self.partition!r}: model is one of "
                f"{', '.join(_MODELS)}; partition is 'iid', 'shards(2)' or 'dirichlet(0.1)' "
                "with numbers of yours"
            )
        if self.protocol == "split" and self.num_clients > 1:
            raise ValueError(
                f"num_clients={self.num_clients}: 'split' has one client; take 'relay' (the bottom "
                "is handed on), 'splitfed' (bottoms are averaged) or 'split_async'"
            )
        if (self.protocol == "split_async") != bool(self.gate):
            raise ValueError(
                f"protocol={self.protocol!r}, gate={self.gate!r}: 'split_async' needs a gate such "
                "as 'LossGate(0.1)', the others have none"
            )
        for kind, text in self.codecs.items():
            if kind not in KINDS or not isinstance(build(text), Codec):
                raise ValueError(
                    f"codecs[{kind!r}] = {text!r}: the key is one of {', '.join(KINDS)}; the value "
                    "is no codec unless it is Pipeline(...) or has one in it, as ErrorFeedback has"
                )
        if self.gate and not isinstance(build(self.gate), Gate):
            raise ValueError(f"gate={self.gate!r} is no gate such as LossGate(0.1) or Periodic(4)")
        one_model = self.protocol in ("splitfed", "fedavg")  # at the end of a round only
        if self.evaluations < 1 or (one_model and self.evaluations > 1):
            raise ValueError(f"evaluations={self.evaluations}: {self.protocol} is tested once")

    @property
    def key(self) -> str:
        """16 hexadecimal digits that stand for all settings but the name, and for no code."""
        what = {**asdict(self), "format": 1}
        del what["name"]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def dealt(self) -> tuple[str, float]:
        """The partition's name, and its number: ("dirichlet", 0.1)."""
        name, _, number = self.partition.rstrip(")").partition("(")
        return name, float(number or 0)

    @property
    def title(self) -> str:
        """The name, or what tells it from others."""
        if self.name:
            return self.name
        parts = [self.protocol, self.gate, *(f"{k}: {c}" for k, c in self.codecs.items())]
        return ", ".join(filter(None, parts))

    def to_dict(self) -> dict[str, Any]:
        """What differs from the defaults, as plain values."""
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != getattr(_DEFAULT, each.name)
            or each.name == "protocol"
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Experiment":
        """The reverse of `to_dict`. Raises ValueError for a key that is none."""
        known = [each.name for each in fields(cls)]
        if strangers := [key for key in values if key not in known]:
            raise ValueError(f"{strangers[0]!r} is no setting; known are {', '.join(known)}")
        return cls(**values)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "Experiment":
        """The reverse of `to_json`."""
        return cls.from_dict(_mapping(json.loads(text), "the JSON text"))

    def to_yaml(self) -> str:
        """A few lines of YAML, as `read` takes them."""
        return _yaml().safe_dump(self.to_dict(), sort_keys=False, width=1000)

    @classmethod
    def from_yaml(cls, text: str) -> "Experiment":
        """The reverse of `to_yaml`."""
        return cls.from_dict(_mapping(_yaml().safe_load(text), "the YAML text"))

    def to_code(self) -> str:
        """Python that runs this experiment and prints what came out."""
        told = "".join(f"    {key}={value!r},\n" for key, value in self.to_dict().items())
        return (
            "from fltoolkit.research import Experiment, run\n\n"
            f"experiment = Experiment(\n{told})\nprint(run(experiment)[-1])\n"
        )


def read(path: str | os.PathLike[str]) -> list[Experiment]:
    """The experiments of a ``.yaml`` or ``.json`` file.

    The file holds one experiment, a list of them, or ``defaults`` (what all have in common) and
    ``experiments`` (a list). ``seeds: [0, 1, 2]`` in place of ``seed`` makes one for each.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        value = json.loads(text) if Path(path).suffix == ".json" else _yaml().safe_load(text)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    except Exception as error:  # YAML's errors share no class with Python's
        raise ValueError(f"{path}: {error}") from error
    defaults: Mapping[str, Any] = {}
    if isinstance(value, dict) and value.keys() <= {"defaults", "experiments"}:
        defaults = _mapping(value.get("defaults") or {}, f"{path}, defaults")
        value = value.get("experiments") or []
    if value == [] or value is None:
        raise ValueError(f"{path} holds no experiment: write a list below `experiments:`")
    found = []
    for number, each in enumerate(value if isinstance(value, list) else [value], 1):
        entry = {**defaults, **_mapping(each, f"{path}, experiment {number}")}
        seeds = entry.pop("seeds", [entry.pop("seed", 0)])
        if not isinstance(seeds, list) or not seeds:
            raise ValueError(f"{path}, experiment {number}: seeds={seeds!r}: a list, as [0, 1, 2]")
        try:
            found += [Experiment.from_dict({**entry, "seed": seed}) for seed in seeds]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, experiment {number}: {error}") from error
    return found


def _canonical(value: Any) -> str:
    """The one way to write a codec or gate; raises ValueError for what could not be read back."""
    return repr(build(value if isinstance(value, str) else repr(value)))


_NUMBERS = ("validation", "lr")
_TEXTS = ("protocol", "data", "model", "partition", "name")
_ANY = ("gate", "codecs", "settings")  # checked by what reads them


def _check_type(name: str, value: Any) -> None:
    if name in _ANY or (name == "num_samples" and value is None):
        return
    wanted = str if name in _TEXTS else (int, float) if name in _NUMBERS else int
    if not isinstance(value, wanted) or isinstance(value, bool):
        words = "a text" if wanted is str else "a whole number" if wanted is int else "a number"
        hint = ". In YAML write 0.001 or 1.0e-3, not 1e-3" if wanted == (int, float) else ""
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}: give {words}{hint}")


def _check_setting(name: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _FLAGS:
        right, words = isinstance(value, bool), "True or False"
    elif name in _AMOUNTS:
        right, words = number and 0 <= value < math.inf, "a number, 0 or more"
    elif name == "through":
        right, words = isinstance(build(value), Codec), "a codec such as Pipeline(TopK(0.01))"
    else:
        right, words = number and isinstance(value, int) and value > 0, "a whole number above 0"
    if not right:
        raise ValueError(f"settings[{name!r}] = {value!r}: give {words}, or leave it out")


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{where} is {str(value)[:40]!r}: expected settings by name, e.g. lr: 0.05"
        )
    return value


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError("YAML needs pyyaml: pip install pyyaml, or use JSON") from error
    return yaml


_DEFAULT = Experiment()
