"""An experiment is one value: task, protocol, codecs, gate and seed.

Here: the settings, their checks, and their form as text.
"""

import copy
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fltoolkit.codecs.base import check_codec
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.split.gates import check_gate
from fltoolkit_research import metrics, protocols
from fltoolkit_research.protocol import Protocol, is_optimizer, one_record_per_round, tested_once
from fltoolkit_research.text import build, call_of, named, read_call, text_of

_NEW = ("optimizer", "loss", "metric", "device")
"""Settings added after the first keys were stored. At their defaults they do not change a key."""

_MODELS = ("mlp", "cnn")
_CALLS = ("data", "model", "loss", "optimizer")
_LEAST = {"rounds": 1, "num_clients": 1, "batch_size": 1, "evaluations": 1, "seed": 0}
_PARTITION = re.compile(r"iid|owners|shards\(\d+\)|dirichlet\(\d*\.?\d+\)")


@dataclass(frozen=True, eq=False)
class Experiment:
    """All settings that a run depends on: equal experiments send the same bytes.

    Codecs, gate, protocol and metric are objects. Data, model, loss and optimizer are functions or
    classes; with arguments, a `functools.partial`. What belongs to the package or to torch may
    also be given as text, which becomes the object: ``"relay"``, ``"Pipeline(Quantize(8))"``,
    ``"AdamW(lr=0.001)"``. Two experiments are equal if their `key` is the same.

    >>> from fltoolkit.codecs import Pipeline
    >>> from fltoolkit.codecs.quantize import Quantize
    >>> eight = Experiment("split", codecs={"activations": Pipeline(Quantize(8))})
    >>> Experiment.from_json(eight.to_json()) == eight
    True
    """

    protocol: Any = "split"  # a Protocol; as text, a name of `fltoolkit_research.protocols`
    data: Any = "digits"  # a name for `fltoolkit.data.load`, or a function that gives Samples
    num_samples: int | None = None  # how many training samples are used; None: all
    validation: float = 0.0  # this share of them is held out, and tested on, not the test set
    model: Any = "mlp"  # `splitnn_mlp`; "cnn": `mcmahan_cnn`; or a function with the argument seed
    cut: int = 4  # layers at the client of split learning; a federated client has them all
    num_clients: int = 1
    partition: str = "iid"  # or "shards(2)", "dirichlet(0.1)", or "owners" as the data set has them
    rounds: int = 5  # split learning: passes over all data; fedavg: rounds
    evaluations: int = 1  # per round; several only if a protocol has one model within a round
    lr: float = 0.05  # learning rate of plain SGD
    batch_size: int = 32
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the protocol
    codecs: Mapping[str, Any] = field(default_factory=dict)  # by kind of message
    gate: Any = ""  # for split_async: decides when the client may be silent
    seed: int = 0
    name: str = ""  # for people; not part of `key`
    optimizer: Any = ""  # replaces plain SGD: functools.partial(AdamW, lr=0.001)
    loss: Any = "NLLLoss()"  # of torch.nn, or a function that gives your own ``loss(output, y)``
    metric: Any = "accuracy"  # the Metric that is measured and compared
    device: str = "cpu"  # where all parties compute: "cuda", "cuda:1", "mps"

    def __post_init__(self) -> None:
        for each in fields(self):
            value = _read(each.name, getattr(self, each.name), ())
            _check_type(each.name, each.type, value)
            object.__setattr__(self, each.name, value)
        for name in ("lr", "validation"):  # 1 and 1.0 are the same experiment
            object.__setattr__(self, name, float(getattr(self, name)))
        self._check()
        assert self.key  # of the objects as they were given: a run may change them

    def _check(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if not 0 < self.lr < math.inf or not 0 <= self.validation < 1:
            raise ValueError(
                f"lr={self.lr}, validation={self.validation}: lr must be above 0, and validation "
                "must be 0 or more and below 1"
            )
        if not isinstance(self.model, partial) and self.model not in _MODELS:
            raise ValueError(
                f"model={self.model!r}: model is one of {', '.join(_MODELS)}, or a function such "
                "as functools.partial(my_model, width=64)"
            )
        if not _PARTITION.fullmatch(self.partition):
            raise ValueError(
                f"partition={self.partition!r}: partition is 'iid', 'shards(2)', 'dirichlet(0.1)' "
                "with numbers that you choose, or 'owners', for data that say whose each sample is"
            )
        if self.optimizer and not is_optimizer(self.optimizer):
            raise ValueError(
                f"optimizer={text_of(self.optimizer)!r}: give an optimizer such as AdamW(lr=0.001)"
            )
        if self.optimizer and self.lr != Experiment.lr:
            raise ValueError(
                f"lr={self.lr}, optimizer={text_of(self.optimizer)!r}: lr is the learning rate of "
                "plain SGD. Write it inside the optimizer, and leave lr out"
            )
        try:
            torch.device(self.device)
        except RuntimeError as error:
            raise ValueError(f"device={self.device!r}: give 'cpu' or 'cuda:0'. {error}") from None
        self._check_settings()
        self._check_codecs_and_gate()
        if self.protocol.records_per_round is one_record_per_round:
            tested_once(self)
        self.protocol.check(self)

    def _check_settings(self) -> None:
        allowed = self.protocol.settings
        if strangers := self.settings.keys() - allowed.keys():
            raise ValueError(
                f"settings {sorted(strangers)} are unknown: the settings of {self.protocol} are "
                f"{', '.join(allowed) or 'none'}"
            )
        for name, value in self.settings.items():
            if not allowed[name].allowed(value):
                raise ValueError(
                    f"settings[{name!r}] = {text_of(value)!r}: give {allowed[name].words}, or "
                    "leave it out"
                )

    def _check_codecs_and_gate(self) -> None:
        for kind, codec in self.codecs.items():
            if kind not in self.protocol.sends:
                raise ValueError(
                    f"codecs[{kind!r}]: {self.protocol} sends {', '.join(self.protocol.sends)}, "
                    f"and never {kind!r}. Remove the codec, or give it to one of these kinds"
                )
            check_codec(f"codecs[{kind!r}] = {text_of(codec)!r}", codec)
        if self.protocol.gated != bool(self.gate):
            raise ValueError(
                f"protocol={self.protocol}, gate={text_of(self.gate)!r}: split_async "
                "needs a gate such as LossGate(0.1), and other protocols have none"
            )
        if self.gate:
            check_gate(self.gate)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits of all settings but the name; the same for every version."""
        what = {**self.plain(), "format": 1}
        del what["name"]
        for name in _NEW:
            if what[name] == getattr(Experiment, name):
                del what[name]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def dealt(self) -> tuple[str, float]:
        """The partition's name and its number, e.g. ("dirichlet", 0.1)."""
        name, _, number = self.partition.rstrip(")").partition("(")
        return name, float(number or 0)

    @property
    def title(self) -> str:
        """The name; without a name, the protocol, the gate and the codecs."""
        if self.name:
            return self.name
        parts = [str(self.protocol), text_of(self.gate)]
        parts += [f"{kind}: {codec}" for kind, codec in self.codecs.items()]
        return ", ".join(filter(None, parts))

    def plain(self) -> dict[str, Any]:
        """All settings as JSON can write them: objects and calls as their text."""
        return {each.name: text_of(getattr(self, each.name)) for each in fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the defaults, and the protocol, as `plain` has them."""
        defaults: dict[str, Any] = {"settings": {}, "codecs": {}}
        return {
            name: value
            for name, value in self.plain().items()
            if name == "protocol" or value != defaults.get(name, getattr(Experiment, name, None))
        }

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], modules: Sequence[ModuleType] = ()
    ) -> "Experiment":
        """The reverse of `to_dict`; what is your own is looked up in ``modules``.

        Raises ValueError for a key that is not a setting, and for a text that cannot be read.
        """
        names = [each.name for each in fields(cls)]
        if strangers := [key for key in values if key not in names]:
            raise ValueError(
                f"{strangers[0]!r} is no setting; the settings are {', '.join(names)}; and, in a "
                "file, seeds"
            )
        return cls(**{name: _read(name, value, modules) for name, value in values.items()})

    def to_json(self, indent: int | None = None) -> str:
        """One line of JSON; with ``indent`` several lines, which `read` can read from a file."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_json(cls, text: str, modules: Sequence[ModuleType] = ()) -> "Experiment":
        """The reverse of `to_json`."""
        return cls.from_dict(_mapping(json.loads(text), "the JSON text"), modules)


def _read(name: str, value: Any, modules: Sequence[ModuleType]) -> Any:
    """The setting ``name`` as an object; what is given as text is read."""
    if name in ("protocol", "metric") and isinstance(value, str):
        return _named(name, value, modules)
    if name in _CALLS and value:
        if not isinstance(value, str):
            return call_of(value)
        return read_call(value, modules) if "(" in value or name == "loss" else value
    if name == "gate" and value:
        gate: Any = _made(value, modules)
        is_object = is_dataclass(gate) and not isinstance(gate, type)
        return replace(gate) if is_object else gate  # one that no run has changed
    if name in ("codecs", "settings"):
        made = {}
        for key, each in sorted(_mapping(value, name).items()):
            try:
                made[key] = _made(each, modules)
            except ValueError as error:
                raise ValueError(f"{name}[{key!r}] = {error}") from error
        return made
    return value


def _made(value: Any, modules: Sequence[ModuleType]) -> Any:
    """What a text with a call describes, or a function of ``modules``; other values as they are."""
    if not isinstance(value, str):
        text_of(value)  # raises ValueError for an object that could not be read back
        return copy.deepcopy(value)  # so that nobody else changes it
    if "(" in value:
        return build(value, modules)
    own = {k: v for m in modules for k, v in vars(m).items() if callable(v)}
    return own.get(value, value)


def _named(name: str, text: str, modules: Sequence[ModuleType]) -> Any:
    """The protocol or metric of this name. Raises ValueError, with all choices, for another one."""
    kind: Any = Protocol if name == "protocol" else Metric
    ours = {m.name: m for m in (ACCURACY, *vars(metrics).values()) if isinstance(m, Metric)}
    choices = dir(protocols) if kind is Protocol else sorted(ours)
    value = named(kind, text, modules)
    if value is None and text in choices:  # of the package's protocols no other is imported
        value = getattr(protocols, text) if kind is Protocol else ours[text]
    if value is None:
        own = [v.name for m in modules for v in vars(m).values() if isinstance(v, kind)]
        hint = (
            f". To use your own {name}, pass the object itself. For the command line, add "
            "--import MODULE"
        )
        found = ", ".join(dict.fromkeys([*own, *choices]))
        raise ValueError(f"{name}={text!r}: choose one of {found}{'' if modules else hint}")
    return value


def one_name_each(experiments: Iterable[Experiment]) -> None:
    """Raise ValueError if equal settings have two names: only one of them would be run."""
    names: dict[str, str] = {}
    for each in experiments:
        if (first := names.setdefault(each.key, each.name)) != each.name:
            raise ValueError(
                f"{first!r} and {each.name!r} are names of the same settings (seed {each.seed}): "
                "change a setting in which they should differ, or remove one"
            )


def read(path: str | os.PathLike[str], modules: Sequence[ModuleType] = ()) -> list[Experiment]:
    """The experiments of a JSON file.

    The file holds one experiment, a list of experiments, or ``defaults`` (the settings that all
    have in common) and ``experiments`` (a list). ``seeds: [0, 1, 2]`` in place of ``seed`` makes
    one experiment for each seed. What is your own is looked up in ``modules``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "methods.json"
    >>> _ = path.write_text('{"protocol": "split", "rounds": 2, "seeds": [0, 1, 2]}')
    >>> [(experiment.rounds, experiment.seed) for experiment in read(path)]
    [(2, 0), (2, 1), (2, 2)]
    """
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    defaults: Mapping[str, Any] = {}
    if isinstance(value, dict) and value.keys() & (lists := {"defaults", "experiments"}):
        if strangers := sorted(value.keys() - lists):
            raise ValueError(
                f"{path}: {strangers[0]!r} is no key of such a file: it has `defaults`, the "
                "settings in common, and `experiments`, a list with the other settings of each "
                'one. Only seeds multiply: "seeds": [0, 1, 2]'
            )
        defaults = _mapping(value.get("defaults") or {}, f"{path}, defaults")
        value = value.get("experiments") or []
    if not value:
        raise ValueError(f'{path} holds no experiment: write a list after "experiments":')
    found = []
    for number, each in enumerate(value if isinstance(value, list) else [value], 1):
        where = f"{path}, experiment {number}"
        entry = {**defaults, **_mapping(each, where)}
        seeds = entry.pop("seeds", [entry.pop("seed", 0)])
        if not isinstance(seeds, list) or not seeds:
            raise ValueError(f"{where}: seeds={seeds!r}: write a list such as [0, 1, 2]")
        try:
            found += [Experiment.from_dict({**entry, "seed": seed}, modules) for seed in seeds]
        except (TypeError, ValueError) as error:
            words = str(error)
            raise ValueError(f"{where}: {words[:500]}{' ...' * (len(words) > 500)}") from error
    one_name_each(found)
    return found


_WORDS = {int: "a whole number", int | None: "a whole number", float: "a number", str: "a text"}


def _check_type(name: str, kind: Any, value: Any) -> None:
    """Raise TypeError for a wrong type; fields of any type are checked elsewhere."""
    allowed = int | float if kind is float else kind
    if kind in _WORDS and (not isinstance(value, allowed) or isinstance(value, bool)):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}: give {_WORDS[kind]}")
    for wanted, needed in (("protocol", Protocol), ("metric", Metric), ("loss", partial)):
        if name == wanted and not isinstance(value, needed):
            how = " (write @as_protocol(sends=...) above the function)" * (needed is Protocol)
            raise TypeError(
                f"{name}={value!r} is a {type(value).__name__}: give a {needed.__name__}{how}"
            )


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{where} is {str(value)[:40]!r}: expected values by name, such as {{'lr': 0.05}} or "
            "{'activations': 'Pipeline(Quantize(8))'}"
        )
    return value
