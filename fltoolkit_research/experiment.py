"""An experiment is one value: task, protocol, codecs, gate and seed.

Here: the settings, their checks, and their forms as text. Not here: running an experiment (runs),
running many (sweeps), comparing results (analysis).
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
import yaml

import fltoolkit_research.baselines  # noqa: F401  the null rows are protocols, too
from fltoolkit.codecs.base import Codec
from fltoolkit.metrics import Metric
from fltoolkit.split.gates import Gate
from fltoolkit_research.methods import PROTOCOLS
from fltoolkit_research.protocol import OPTIMIZER, Protocol, Setting
from fltoolkit_research.text import build, home_of, may_be_called, names_of, read_call

_NEW = ("optimizer", "loss", "metric", "device", "autocast", "lines")
"""Settings added after the first keys were stored. At their defaults they do not change a key."""

_MODELS = ("mlp", "cnn")
_LEAST = {"rounds": 1, "num_clients": 1, "batch_size": 1, "evaluations": 1, "seed": 0}
_PARTITION = re.compile(r"iid|owners|shards\(\d+\)|dirichlet\(\d*\.?\d+\)")


@dataclass(frozen=True)
class Experiment:
    """All settings that a run depends on, as plain values: equal experiments send the same bytes.

    Codecs and the gate may be given as objects; they are kept as their ``repr``, which
    `fltoolkit_research.build` reads back. Data, model and loss may be calls of your own functions,
    written as text; ``protocol`` and ``metric`` may be names that you have allowed with
    `fltoolkit_research.allow`.

    >>> from fltoolkit.codecs import Pipeline
    >>> from fltoolkit.codecs.quantize import Quantize
    >>> eight = Experiment("split", codecs={"activations": Pipeline(Quantize(8))})
    >>> Experiment.from_json(eight.to_json()) == eight
    True
    """

    protocol: str = "split"  # one of PROTOCOLS or NULL_MODELS, or the name of your own
    data: str = "digits"  # a name for `fltoolkit.data.load`, or "my_data()", which gives a Dataset
    num_samples: int | None = None  # how many training samples are used; None: all
    validation: float = (
        0.0  # this share of them is held out, and tested on in place of the test set
    )
    model: str = "mlp"  # `splitnn_mlp`; "cnn": `mcmahan_cnn`; or "my_model(width=64)"
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
    name: str = field(default="", compare=False)  # for people; not part of `key`
    optimizer: Any = ""  # replaces plain SGD: "AdamW(lr=0.001)"
    loss: str = "NLLLoss()"  # of torch.nn, or a call that gives your own ``loss(output, y)``
    metric: Any = "accuracy"  # the name of the Metric that is measured and compared
    device: str = "cpu"  # where all parties compute: "cuda", "cuda:1", "mps"
    autocast: str = ""  # "bfloat16": forward passes in 16 bits where torch holds it to be safe
    lines: str = ""  # each client's rate and latency, for `seconds`: "read_lines('homes.csv')"

    def __post_init__(self) -> None:
        for name, kind in (("protocol", Protocol), ("metric", Metric)):
            if isinstance(value := getattr(self, name), kind):
                object.__setattr__(self, name, value.name)
        if not isinstance(self.codecs, Mapping) or not isinstance(self.settings, Mapping):
            raise TypeError(
                f"codecs={self.codecs!r}, settings={self.settings!r}: give mappings, such as "
                "{'activations': 'Pipeline(Quantize(8))'}"
            )
        for each in fields(self):
            _check_type(each.name, each.type, getattr(self, each.name))
        self._check_names()
        codecs = {kind: _canonical(codec) for kind, codec in sorted(self.codecs.items())}
        object.__setattr__(self, "codecs", codecs)
        object.__setattr__(self, "settings", self._kept_settings())
        object.__setattr__(self, "gate", _canonical(self.gate) if self.gate else "")
        if self.optimizer:
            object.__setattr__(self, "optimizer", _kept("optimizer", OPTIMIZER, self.optimizer))
        for name in ("lr", "validation"):  # 1 and 1.0 are the same experiment
            object.__setattr__(self, name, float(getattr(self, name)))
        self._check()

    def __hash__(self) -> int:
        return hash(self.key)

    def _check_names(self) -> None:
        """Protocol, metric, data, model and loss: known names, or calls of known functions."""
        for name, kind in (("protocol", Protocol), ("metric", Metric)):
            if getattr(self, name) not in (names := names_of(kind)):
                raise ValueError(
                    f"{name}={getattr(self, name)!r}: choose one of {', '.join(names)}. To use "
                    f"your own {name}, pass it to fltoolkit_research.allow. For the command line, "
                    "call allow in a module and add --import MODULE"
                )
        for name in ("data", "model", "loss", "lines"):
            if "(" in (text := getattr(self, name)) or name == "loss":
                object.__setattr__(self, name, repr(read_call(text)))
            elif may_be_called(text):
                raise ValueError(f"{name}={text!r}: {text} is called, so write {text}()")
        if self.model not in _MODELS and "(" not in self.model:
            raise ValueError(
                f"model={self.model!r}: model is one of {', '.join(_MODELS)}, or the call of an "
                "allowed function such as 'my_model(width=64)'"
            )

    def _kept_settings(self) -> dict[str, Any]:
        allowed = self.method.settings
        if strangers := self.settings.keys() - allowed.keys():
            raise ValueError(
                f"settings {sorted(strangers)} are unknown: the settings of {self.protocol} are "
                f"{', '.join(allowed) or 'none'}"
            )
        return {
            name: _kept(f"settings[{name!r}]", allowed[name], value)
            for name, value in sorted(self.settings.items())
        }

    def _check(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if not 0 < self.lr < math.inf or not 0 <= self.validation < 1:
            raise ValueError(
                f"lr={self.lr}, validation={self.validation}: lr must be above 0, and validation "
                "must be 0 or more and below 1"
            )
        if not _PARTITION.fullmatch(self.partition):
            raise ValueError(
                f"partition={self.partition!r}: partition is 'iid', 'shards(2)', 'dirichlet(0.1)' "
                "with numbers that you choose, or 'owners', for data that say whose each sample is"
            )
        if self.optimizer and self.lr != Experiment.lr:
            raise ValueError(
                f"lr={self.lr}, optimizer={self.optimizer!r}: lr is the learning rate of plain "
                "SGD. Write it inside the optimizer, and leave lr out"
            )
        try:
            torch.device(self.device)
        except RuntimeError as error:
            raise ValueError(f"device={self.device!r}: give 'cpu' or 'cuda:0'. {error}") from None
        if self.autocast not in ("", "bfloat16"):
            raise ValueError(
                f"autocast={self.autocast!r}: give 'bfloat16', or leave it out. float16 would need "
                "scaled losses"
            )
        self._check_codecs()
        self._check_gate()
        self.method.check(self)

    def _check_codecs(self) -> None:
        for kind, text in self.codecs.items():
            if kind not in self.method.sends:
                raise ValueError(
                    f"codecs[{kind!r}]: {self.protocol} sends {', '.join(self.method.sends)}, and "
                    f"never {kind!r}. Remove the codec, or give it to one of these kinds"
                )
            if not isinstance(build(text), Codec):
                raise ValueError(
                    f"codecs[{kind!r}] = {text!r}: this is no codec. Write Pipeline(...), or a "
                    "codec that holds one, as ErrorFeedback(Pipeline(...)) does"
                )

    def _check_gate(self) -> None:
        if self.method.gated != bool(self.gate):
            gated = [name for name, protocol in PROTOCOLS.items() if protocol.gated]
            raise ValueError(
                f"protocol={self.protocol!r}, gate={self.gate!r}: {' and '.join(gated)} need a "
                "gate such as 'LossGate(0.1)', and other protocols have none"
            )
        if self.gate and not isinstance(build(self.gate), Gate):
            raise ValueError(
                f"gate={self.gate!r} is no gate: write one such as LossGate(0.1) or Periodic(4)"
            )

    @property
    def method(self) -> Protocol:
        """The protocol, as a value."""
        return build(self.protocol)

    @property
    def measured(self) -> Metric:
        """The metric, as a value."""
        return build(self.metric)

    @property
    def key(self) -> str:
        """16 hexadecimal digits of all settings but the name; the same for every version."""
        what = {**asdict(self), "format": 1}
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
        parts = [self.protocol, self.gate, *(f"{k}: {c}" for k, c in self.codecs.items())]
        return ", ".join(filter(None, parts))

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the defaults, as plain values."""
        return {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != getattr(_DEFAULT, each.name)
            or each.name == "protocol"
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Experiment":
        """The reverse of `to_dict`. Raises ValueError for a key that is not a setting."""
        known = [each.name for each in fields(cls)]
        if strangers := [key for key in values if key not in known]:
            raise ValueError(
                f"{strangers[0]!r} is no setting; the settings are {', '.join(known)}; and, in a "
                "file, seeds"
            )
        return cls(**values)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "Experiment":
        """The reverse of `to_json`."""
        return cls.from_dict(_mapping(json.loads(text), "the JSON text"))

    def to_yaml(self) -> str:
        """A few lines of YAML, which `read` can read."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, width=1000)

    @classmethod
    def from_yaml(cls, text: str) -> "Experiment":
        """The reverse of `to_yaml`."""
        return cls.from_dict(_mapping(yaml.safe_load(text), "the YAML text"))

    def to_code(self) -> str:
        """A Python script that runs this experiment and prints its last record.

        The script imports the modules in which your own codecs, data or models were defined; these
        modules must call `fltoolkit_research.allow`.
        """
        texts = [self.protocol, self.data, self.model, self.loss, self.metric, self.optimizer]
        texts += [self.lines, self.gate, *self.codecs.values()]
        modules: set[str] = set().union(*(home_of(text) for text in texts if text))
        lines = ["from fltoolkit_research import Experiment, run", ""]
        for module in sorted(modules):
            if module in ("__main__", "builtins"):
                lines += ["# first call allow(...) for your own classes and functions", ""]
            else:
                lines[1:1] = [f"import {module}  # noqa: F401  it allows the names used below"]
        lines.append("experiment = Experiment(")
        for key, value in self.to_dict().items():
            if isinstance(value, Mapping):
                rows = [f"        {name!r}: {each!r}," for name, each in value.items()]
                lines += [f"    {key}={{", *rows, "    },"]
            else:
                lines.append(f"    {key}={value!r},")
        return "\n".join([*lines, ")", "print(run(experiment)[-1])", ""])


def one_name_each(experiments: Iterable[Experiment]) -> None:
    """Raise ValueError if equal settings have two names: only one of them would be run."""
    names: dict[str, str] = {}
    for each in experiments:
        if (first := names.setdefault(each.key, each.name)) != each.name:
            raise ValueError(
                f"{first!r} and {each.name!r} are names of the same settings (seed {each.seed}): "
                "change a setting in which they should differ, or remove one"
            )


def read(path: str | os.PathLike[str]) -> list[Experiment]:
    """The experiments of a ``.yaml`` or ``.json`` file.

    The file holds one experiment, a list of experiments, or ``defaults`` (the settings that all
    have in common) and ``experiments`` (a list). ``seeds: [0, 1, 2]`` in place of ``seed`` makes
    one experiment for each seed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "methods.json"
    >>> _ = path.write_text('{"protocol": "split", "rounds": 2, "seeds": [0, 1, 2]}')
    >>> [(experiment.rounds, experiment.seed) for experiment in read(path)]
    [(2, 0), (2, 1), (2, 2)]
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        value = json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text)
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    except Exception as error:  # YAML's errors share no class with Python's
        raise ValueError(f"{path}: {error}") from error
    defaults: Mapping[str, Any] = {}
    if isinstance(value, dict) and value.keys() & (lists := {"defaults", "experiments"}):
        if strangers := sorted(map(str, value.keys() - lists)):
            raise ValueError(
                f"{path}: {strangers[0]!r} is no key of such a file: it has `defaults`, the "
                "settings in common, and `experiments`, a list with the other settings of each "
                "one. Only seeds multiply: `seeds: [0, 1, 2]`"
            )
        defaults = _mapping(value.get("defaults") or {}, f"{path}, defaults")
        value = value.get("experiments") or []
    if value == [] or value is None:
        raise ValueError(f"{path} holds no experiment: write a list below `experiments:`")
    found = []
    for number, each in enumerate(value if isinstance(value, list) else [value], 1):
        entry = {**defaults, **_mapping(each, f"{path}, experiment {number}")}
        seeds = entry.pop("seeds", [entry.pop("seed", 0)])
        if not isinstance(seeds, list) or not seeds:
            raise ValueError(
                f"{path}, experiment {number}: seeds={seeds!r}: write a list such as [0, 1, 2]"
            )
        try:
            found += [Experiment.from_dict({**entry, "seed": seed}) for seed in seeds]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, experiment {number}: {error}") from error
    try:
        one_name_each(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return found


def _canonical(value: Any) -> str:
    """The codec or gate as its ``repr``; raises ValueError for what could not be read back."""
    return repr(build(value if isinstance(value, str) else repr(value)))


_WORDS = {int: "a whole number", int | None: "a whole number", float: "a number", str: "a text"}


def _check_type(name: str, kind: Any, value: Any) -> None:
    """Raise TypeError for a wrong type; fields of any type are checked elsewhere."""
    allowed = int | float if kind is float else kind
    if kind in _WORDS and (not isinstance(value, allowed) or isinstance(value, bool)):
        words = _WORDS[kind]
        hint = ". In YAML write 0.001 or 1.0e-3, not 1e-3" if kind is float else ""
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}: give {words}{hint}")


def _kept(where: str, setting: Setting, value: Any) -> Any:
    try:
        return setting.kept(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where} = {value!r}: {error}") from error


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{where} is {str(value)[:40]!r}: expected settings by name, e.g. lr: 0.05"
        )
    return value


_DEFAULT = Experiment()
