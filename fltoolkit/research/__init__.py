"""Experiments: describe a run as a value, train it, store its records, compare results.

    text        codecs, models and optimizers as text, read back without ``eval``
    task        data, network and parties, which a protocol is given
    protocol    the type of a protocol: a name, settings, and a function that trains
    methods     the package's own protocols, each a small function
    baselines   protocols to compare with: send the data, train alone, do nothing
    experiment  all settings that a run depends on, as one value
    weighing    nominal, real and entropy bytes of the messages
    run         from an experiment to its records
    store       results in one SQLite file
    sweep       many experiments on several cores or on a cluster, each run once
    analysis    Pareto fronts, bytes to a target, tables
    suggest     a search for the best settings within a number of bytes
    pretrained  a small language model, trained once and kept in a file

Notebook 07 uses these functions.
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
from fltoolkit.research.baselines import NULL_MODELS
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
    "NULL_MODELS",
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
