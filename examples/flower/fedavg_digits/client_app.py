"""The ClientApp: which client this node is, and what it has."""

from flwr.app import Context

from fedavg_digits.engine import ClientSetup, client_app
from fedavg_digits.task import codecs, network, own_data


def setup(context: Context) -> ClientSetup:
    config = context.run_config
    number = int(context.node_config["partition-id"])
    x, y = own_data(number, int(config["num-clients"]), int(config["seed"]))
    seed, compressed = int(config["seed"]), bool(config["compressed"])
    return ClientSetup(f"client-{number}", network(seed), x, y, codecs(compressed))


app = client_app(setup)
