"""Runs as values: described, trained, stored, compared.

    text        codecs, models and optimizers as text, read back without ``eval``
    task        data, network and parties, for a protocol to work with
    protocol    what a protocol is: a name, settings, and a function that trains
    methods     the package's own protocols, each a small function
    experiment  all that a run depends on, as one value
    weighing    nominal, real and entropy bytes of what is sent
    run         from an experiment to its records
    store       results in one SQLite file
    sweep       many experiments on cores or a cluster, each once
    analysis    fronts, bytes to a target, tables
    suggest     the best settings for so many bytes
    pretrained  a small language model, trained once and kept in a file

Notebook 07 uses all of it.
"""

from fltoolkit.research.analysis import (
    Point,
    Size,
    by_task,
    bytes_to_reach,
    c3_score,
    failures,
    front,
    front_within,
    groups,
    metric_of,
    on_link,
    points,
    seconds_on,
    sizes_of,
    table,
    table_as_csv,
    table_as_latex,
    value_within,
)
from fltoolkit.research.experiment import Experiment, read
from fltoolkit.research.methods import PROTOCOLS
from fltoolkit.research.pretrained import pretrained
from fltoolkit.research.protocol import (
    AMOUNT,
    CODEC,
    COUNT,
    FLAG,
    OPTIMIZER,
    Protocol,
    Setting,
    a_record_a_round,
    a_record_a_step,
)
from fltoolkit.research.run import num_steps, records, run
from fltoolkit.research.store import Result, Store, StoreError
from fltoolkit.research.suggest import Suggestion, Tried, space, spend, suggest
from fltoolkit.research.sweep import cluster, sweep
from fltoolkit.research.task import Task
from fltoolkit.research.text import allow, build
from fltoolkit.research.weighing import WeighingChannel, weigh

__all__ = [
    "AMOUNT",
    "CODEC",
    "COUNT",
    "FLAG",
    "OPTIMIZER",
    "PROTOCOLS",
    "Experiment",
    "Point",
    "Protocol",
    "Result",
    "Setting",
    "Size",
    "Store",
    "StoreError",
    "Suggestion",
    "Task",
    "Tried",
    "WeighingChannel",
    "a_record_a_round",
    "a_record_a_step",
    "allow",
    "build",
    "by_task",
    "bytes_to_reach",
    "c3_score",
    "cluster",
    "failures",
    "front",
    "front_within",
    "groups",
    "metric_of",
    "num_steps",
    "on_link",
    "points",
    "pretrained",
    "read",
    "records",
    "run",
    "seconds_on",
    "sizes_of",
    "space",
    "spend",
    "suggest",
    "sweep",
    "table",
    "table_as_csv",
    "table_as_latex",
    "value_within",
    "weigh",
]
