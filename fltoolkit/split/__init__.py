"""Split learning: parties that each hold a part of one network train it together.

Every protocol is a short function that follows its figure; all data is sent through a `Channel`.

    chain         one client and one label party, several hops, U-shaped
    vertical      parties that hold different columns of the same samples
    clients       several clients: the bottom is handed on (relay), or averaged (SplitFed)
    gates         when a client may be silent: states A, B and C
    cache         the label party's memory of activations
    uploads       which activations a client sends: all, those that changed, or their differences
    asynchronous  training by a gate, with one client or several
    variants      two relatives, to compare with

Notebooks 01 to 03 derive it.
"""

from fltoolkit.split.asynchronous import Bookmark, train_async, train_async_relay
from fltoolkit.split.cache import ActivationCache
from fltoolkit.split.chain import split_step, train_split
from fltoolkit.split.clients import train_relay, train_splitfed
from fltoolkit.split.gates import (
    AlwaysA,
    BangBang,
    BudgetGate,
    Decay,
    FreezeAfter,
    Gate,
    LogSpaced,
    LossGate,
    Periodic,
    Progress,
    State,
    gate_trace,
)
from fltoolkit.split.uploads import Upload
from fltoolkit.split.variants import train_local_loss, train_uploading
from fltoolkit.split.vertical import add, average, concatenate, train_vertical, vertical_step

__all__ = [
    "ActivationCache",
    "AlwaysA",
    "BangBang",
    "Bookmark",
    "BudgetGate",
    "Decay",
    "FreezeAfter",
    "Gate",
    "LogSpaced",
    "LossGate",
    "Periodic",
    "Progress",
    "State",
    "Upload",
    "add",
    "average",
    "concatenate",
    "gate_trace",
    "split_step",
    "train_async",
    "train_async_relay",
    "train_local_loss",
    "train_relay",
    "train_split",
    "train_splitfed",
    "train_uploading",
    "train_vertical",
    "vertical_step",
]
