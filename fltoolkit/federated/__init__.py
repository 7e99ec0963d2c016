"""Federated learning: a server and many clients train one model, compressed both ways.

    client      what a client does alone: plainly, and quicker with equal results
    server      how the server's model moves by a mean update
    clock       how long clients take, in virtual time; what late updates are worth
    privacy     clipping and Gaussian noise
    adaptive    compression that follows the run
    fedavg      rounds of federated averaging
    fedasync    servers that do not wait for a round

`_many_at_once` trains a whole cohort in one vectorized computation. Notebooks 04 to 06 derive it.
"""

from fltoolkit.federated.adaptive import AdaptiveLevels, ByteBudget, Rule
from fltoolkit.federated.client import LocalUpdate, local_update, local_update_lean
from fltoolkit.federated.clock import (
    Arrival,
    Backlog,
    Clock,
    Constant,
    Drop,
    Even,
    Hinge,
    LogNormal,
    Polynomial,
    Scripted,
    Staleness,
)
from fltoolkit.federated.fedasync import Flight, fedasync, fedbuff
from fltoolkit.federated.fedavg import Clients, Train, fedavg, interval_averaging
from fltoolkit.federated.privacy import GaussianDP, clipped
from fltoolkit.federated.server import Yogi, check_optimizer, move

__all__ = [
    "AdaptiveLevels",
    "Arrival",
    "Backlog",
    "ByteBudget",
    "Clients",
    "Clock",
    "Constant",
    "Drop",
    "Even",
    "Flight",
    "GaussianDP",
    "Hinge",
    "LocalUpdate",
    "LogNormal",
    "Polynomial",
    "Rule",
    "Scripted",
    "Staleness",
    "Train",
    "Yogi",
    "check_optimizer",
    "clipped",
    "fedasync",
    "fedavg",
    "fedbuff",
    "interval_averaging",
    "local_update",
    "local_update_lean",
    "move",
]
