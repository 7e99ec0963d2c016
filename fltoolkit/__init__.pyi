import typing

from .channel import Channel as Channel
from .channel import Transfer as Transfer
from .checkpoint import has_run as has_run
from .checkpoint import load_run as load_run
from .checkpoint import save_run as save_run
from .data.batches import Batches as Batches
from .data.datasets import load as load
from .evaluation import evaluate as evaluate
from .evaluation import forward as forward
from .federated.client import Local as Local
from .federated.rounds import fedavg as fedavg
from .federated.server import Server as Server
from .history import History as History
from .history import evaluated as evaluated
from .models import splitnn_mlp as splitnn_mlp
from .party import SGD as SGD
from .party import Party as Party
from .split.asynchronous import train_async as train_async
from .split.asynchronous import train_async_relay as train_async_relay
from .split.chain import split_step as split_step
from .split.chain import train_split as train_split
from .split.clients import train_relay as train_relay
from .split.clients import train_splitfed as train_splitfed
from .split.gates import LossGate as LossGate
from .split.vertical import train_vertical as train_vertical
from .wire import WireError as WireError
from .wire import pack as pack
from .wire import unpack as unpack

__version__: str

def __getattr__(name: str) -> typing.Any: ...  # a file or a room
