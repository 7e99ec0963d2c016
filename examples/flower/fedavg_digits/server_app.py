"""The ServerApp: the model, the settings, and where the records are written."""

import json
import time
from pathlib import Path

import torch
from flwr.app import Context

from fedavg_digits.engine import Letters, ServerSetup, server_app
from fedavg_digits.task import codecs, network, settings
from fltoolkit import History, load
from fltoolkit.history import Record


def setup(context: Context) -> ServerSetup:
    config = context.run_config
    out = Path(str(config["out"]))
    out.mkdir(parents=True, exist_ok=True)
    model, history = network(int(config["seed"])), History()
    digits, start = load("digits").flat(), time.perf_counter()

    def on_record(record: Record) -> None:
        with torch.no_grad():
            right = model(digits.x_test).argmax(1) == digits.y_test
        history.append({**record, "accuracy": float(right.float().mean())})
        print(json.dumps(history[-1]), flush=True)

    def on_end(channel: Letters) -> None:
        history.save(out / "records.jsonl")
        torch.save(model.state_dict(), out / "model.pt")
        report = {"seconds": time.perf_counter() - start, "nbytes": channel.nbytes()}
        report |= {"nbytes_moved": channel.nbytes_moved, "accuracy": history[-1]["accuracy"]}
        (out / "report.json").write_text(json.dumps(report))

    num_nodes = int(config["num-clients"])
    compressed = codecs(bool(config["compressed"]))
    return ServerSetup(model, settings(config), num_nodes, compressed, on_record, on_end)


app = server_app(setup)
