"""An app of Flower with the meter, in Flower's simulation: docs/meter_flower.md has what it prints.

    pip install "fltoolkit[flower]" "flwr[simulation]>=1.21"
    cd examples/flower_meter
    export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1    # use what is installed here
    flwr run . local --stream --federation-config "num-supernodes=3"

What was added to an app that knew nothing of bytes ends with ``# meter``.
"""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

from fltoolkit import load
from fltoolkit.codecs import Entropy, Pipeline, Quantize  # meter
from fltoolkit_engines.flower_meter import MeteredGrid, metered_mod  # meter

CODECS = {"model": Pipeline(Quantize(8), Entropy())}  # meter
NUM_NODES = 3


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


client = ClientApp(mods=[metered_mod(CODECS)])  # meter
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """One pass over the node's digits."""
    model, data = network(), load("digits").flat()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    mine = slice(int(context.node_config["partition-id"]), None, NUM_NODES)
    x, y = data.x_train[mine], data.y_train[mine]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in torch.arange(len(y)).split(16):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Five rounds, then the test."""
    metered = MeteredGrid(grid, CODECS)  # meter
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=NUM_NODES)
    first = ArrayRecord(network().state_dict())
    result = strategy.start(grid=metered, initial_arrays=first, num_rounds=5)
    model, data = network(), load("digits").flat()
    model.load_state_dict(result.arrays.to_torch_state_dict())
    right = (model(data.x_test).argmax(1) == data.y_test).float().mean()
    sent, count = metered.channel.nbytes(), len(metered.channel.transfers)  # meter
    print(f"{100 * right:.1f} %, {sent:,} bytes in {count} messages")  # meter
