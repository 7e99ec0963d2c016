"""The Flower app that `experiments.links.flower` deploys: the methods, the clock and the counters.

The round is that of `experiments.links.methods.averaging`. Flower's engine refuses `Difference`,
because a message may be lost there; so in 3 bits the model itself is sent, not its change.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from flwr.app import Context

from experiments.links.emulator import DEVICE
from experiments.links.methods import BATCH_SIZE, CLIENT, LR, SEED, THREE
from fltoolkit import load, splitnn_mlp
from fltoolkit.codecs import ErrorFeedback
from fltoolkit.federated import Local
from fltoolkit.history import Record
from fltoolkit_engines.flower import ClientSetup, ServerSetup, client_app, server_app

CODECS = {
    "FedAvg, float32": {},
    "FedAvg, 3 bits both ways": {"update": ErrorFeedback(THREE), "model": THREE},
}
torch.set_num_threads(1)
since = 0.0  # processor time of this process when its data were loaded


def write(context: Context, name: str, line: dict[str, float]) -> None:
    """Add a line of JSON to a file of this run."""
    with Path(str(context.run_config["out"]), name).open("a") as file:
        file.write(json.dumps(line) + "\n")


def have(context: Context) -> ClientSetup:
    """The one client has all images."""
    global since
    data, model = load("digits").flat(), splitnn_mlp(64, seed=SEED)
    since = time.thread_time()
    codecs = CODECS[str(context.run_config["method"])]
    return ClientSetup(CLIENT, model, data.x_train, data.y_train, codecs)


def serve(context: Context) -> ServerSetup:
    """Time, processor time and the interface's counters after each round."""
    moved = Path(f"/sys/class/net/{DEVICE}/statistics")
    codecs = CODECS[str(context.run_config["method"])]
    data, model = load("digits").flat(), splitnn_mlp(64, seed=SEED)

    def on_record(record: Record) -> None:
        line = {"time": time.time(), "cpu": time.thread_time()}
        for way, counter in (("up", "rx"), ("down", "tx")):  # this is the server's side
            line[f"nbytes_{way}"] = record[f"nbytes_{way}"]
            line[f"below_{way}"] = int((moved / f"{counter}_bytes").read_text())
        with torch.no_grad():
            right = model(data.x_test).argmax(1) == data.y_test
        write(context, "server.jsonl", {**line, "accuracy": float(right.float().mean())})

    local = Local(batch_size=BATCH_SIZE, lr=LR, epochs=1)
    settings = {"rounds": int(context.run_config["rounds"]), "cohort": 1, "local": local}
    return ServerSetup(model, settings, 1, codecs, on_record)


server = server_app(serve)
client = client_app(have)


@client.lifespan()
def timed(context: Context) -> Iterator[None]:
    """Processor time of training and codecs without that of loading; and of the whole process."""
    yield
    write(
        context,
        "client.jsonl",
        {"cpu": time.thread_time() - since, "process": time.process_time()},
    )
