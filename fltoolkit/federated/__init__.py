"""Federated learning: a server and many clients train one model, compressed both ways.

    client      what a client does alone: a plain function, and a faster one with equal results
    many_at_once  the training of many clients in one vectorized computation
    server      how a mean update changes the server's model
    clock       how long clients take, in virtual time, and how much late updates count
    means       how the updates of a round become one
    privacy     a mean of clipped updates with Gaussian noise
    adaptive    compression that changes during the run
    samples     the clients' samples, and whether model and loss fit them
    workers     clients, their training and their updates, as one value
    fedavg      rounds of federated averaging
    fedasync    servers that do not wait for a round
    exchange    an average among workers: through a server, all to all, or in a ring
    ddp         gradients averaged at every step; what workers remember
    diloco      many local steps, then an average of how far workers came; streamed in fragments
    demo        momentum of which only the fast part is sent
    muon        an optimizer whose steps are orthogonal matrices

`_dense` writes out the steps of linear layers. Notebooks 04 to 06 derive this room.
"""

from fltoolkit.federated.adaptive import AdaptiveLevels, ByteBudget, Rule
from fltoolkit.federated.client import Local, LocalUpdate, local_update, local_update_lean
from fltoolkit.federated.clock import (
    Arrival,
    Arrivals,
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
from fltoolkit.federated.ddp import Fleet, ddp
from fltoolkit.federated.demo import cosines, demo, from_cosines
from fltoolkit.federated.diloco import diloco, seconds_waiting, streaming_diloco
from fltoolkit.federated.exchange import AllGather, Exchange, Ring, ThroughServer
from fltoolkit.federated.fedasync import Flight, fedasync, fedbuff
from fltoolkit.federated.fedavg import Cohort, fedavg, interval_averaging
from fltoolkit.federated.many_at_once import local_updates
from fltoolkit.federated.means import Collecting, Mean, WithMasks, masked_mean, weighted_mean
from fltoolkit.federated.muon import Muon, muon_for, orthogonalized
from fltoolkit.federated.privacy import GaussianDP
from fltoolkit.federated.samples import Clients
from fltoolkit.federated.server import Yogi
from fltoolkit.federated.workers import Train, Workers

__all__ = [
    "AdaptiveLevels",
    "AllGather",
    "Arrival",
    "Arrivals",
    "Backlog",
    "ByteBudget",
    "Clients",
    "Clock",
    "Cohort",
    "Collecting",
    "Constant",
    "Drop",
    "Even",
    "Exchange",
    "Fleet",
    "Flight",
    "GaussianDP",
    "Hinge",
    "Local",
    "LocalUpdate",
    "LogNormal",
    "Mean",
    "Muon",
    "Polynomial",
    "Ring",
    "Rule",
    "Scripted",
    "Staleness",
    "ThroughServer",
    "Train",
    "WithMasks",
    "Workers",
    "Yogi",
    "cosines",
    "ddp",
    "demo",
    "diloco",
    "fedasync",
    "fedavg",
    "fedbuff",
    "from_cosines",
    "interval_averaging",
    "local_update",
    "local_update_lean",
    "local_updates",
    "masked_mean",
    "muon_for",
    "orthogonalized",
    "seconds_waiting",
    "streaming_diloco",
    "weighted_mean",
]
