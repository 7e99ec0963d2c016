"""Runs as values: described, trained, stored, compared.

    text        codecs and gates as text, read back without ``eval``
    experiment  all that a run depends on, as one value
    weighing    nominal, real and entropy bytes of what is sent
    run         from an experiment to its records
    store       results in one SQLite file
    sweep       many experiments on cores or a cluster, each once
    analysis    fronts, bytes to a target, tables
    suggest     the best settings for so many bytes

Notebook 07 uses all of it.
"""

from fltoolkit.research.analysis import (
    Point,
    Size,
    accuracy_within,
    by_task,
    bytes_to_reach,
    c3_score,
    failures,
    front,
    front_within,
    groups,
    on_link,
    points,
    seconds_on,
    sizes_of,
    table,
)
from fltoolkit.research.experiment import PROTOCOLS, Experiment, read
from fltoolkit.research.run import num_steps, records, run
from fltoolkit.research.store import Result, Store, StoreError
from fltoolkit.research.suggest import Suggestion, space, spend, suggest
from fltoolkit.research.sweep import cluster, sweep
from fltoolkit.research.text import allow, build
from fltoolkit.research.weighing import WeighingChannel, weigh

__all__ = [
    "PROTOCOLS",
    "Experiment",
    "Point",
    "Result",
    "Size",
    "Store",
    "StoreError",
    "Suggestion",
    "WeighingChannel",
    "accuracy_within",
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
    "num_steps",
    "on_link",
    "points",
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
    "weigh",
]
