"""The app's run in one process, in Flower's simulation and on a loopback deployment: one table.

    python compare.py                  # in this folder; in process and simulation
    python compare.py --deployment     # and a SuperLink with two SuperNodes, TLS, authentication

Bytes are kB (1,000). "Ours" is the ledger, "moved" what Flower carried as protobuf. Seconds are
those of the training, without Flower's start; "all" is the whole command. Ends with an error where
the weights are not the same.
"""

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tomli
import torch
from fedavg_digits.task import codecs, network, own_data, settings
from loopback import deploy, free_ports, programs

from fltoolkit import Channel, fedavg, load
from fltoolkit.federated import Fleet
from fltoolkit.federated.many_at_once import local_updates

HERE = Path(__file__).parent
SECONDS = 600  # a run that takes longer has been lost by the engine


def in_process(config: dict, out: Path) -> None:
    num, seed = config["num-clients"], config["seed"]
    model, channel = network(seed), Channel(codecs(config["compressed"]))
    start = time.perf_counter()
    clients = {f"client-{k}": own_data(k, num, seed) for k in range(num)}
    in_turn = functools.partial(local_updates, chunk=1)
    for _ in fedavg(model, Fleet(clients, in_turn), channel, **settings(config)):
        pass
    report = {"seconds": time.perf_counter() - start, "nbytes": channel.nbytes(), "nbytes_moved": 0}
    digits = load("digits").flat()
    with torch.no_grad():
        right = model(digits.x_test).argmax(1) == digits.y_test
    report["accuracy"] = float(right.float().mean())
    torch.save(model.state_dict(), out / "model.pt")
    (out / "report.json").write_text(json.dumps(report))


def simulation(config: dict, out: Path) -> None:
    """On a SuperLink that ends with it; `flwr run` alone would leave one behind, for others."""
    (port,) = free_ports(1)
    changes = f"rounds={config['rounds']} out='{out}'"
    command = ["flwr", "run", ".", "local", "--stream", "--run-config", changes]
    command += ["--federation-config", f"num-supernodes={config['num-clients']}"]
    with programs(out, out / "home") as start:
        env = start("superlink", port, "--insecure", "--simulation")
        env |= {"FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(port)}
        subprocess.run(command, cwd=HERE, env=env, check=True, timeout=SECONDS)


def deployment(config: dict, out: Path) -> None:
    deploy(out, f"rounds={config['rounds']} out='{out}'")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deployment", action="store_true")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, help="write the rows there too, as JSON")
    args = parser.parse_args()
    app = tomli.loads((HERE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    config = app["config"] | {"rounds": args.rounds}
    ways = {"FedAvg, one process": in_process, "FedAvg, simulation": simulation}
    ways |= {"FedAvg, deployed": deployment} if args.deployment else {}
    rows, weights = [], {}
    for name, run in ways.items():
        out, start = Path(tempfile.mkdtemp()), time.perf_counter()
        run(config, out)
        report = json.loads((out / "report.json").read_text())
        weights[name] = torch.load(out / "model.pt", weights_only=True)
        rows.append((name, report, time.perf_counter() - start))
    header = f"{'accuracy':>10s}{'ours [kB]':>12s}{'moved [kB]':>12s}{'s':>8s}{'all [s]':>9s}"
    print(f"\n{'':22s}{header}")
    for name, report, seconds in rows:
        print(
            f"{name:22s}{100 * report['accuracy']:8.2f} %{report['nbytes'] / 1e3:12.1f}"
            f"{report['nbytes_moved'] / 1e3:12.1f}{report['seconds']:8.1f}{seconds:9.1f}"
        )
    if args.out:
        args.out.write_text(json.dumps({name: report for name, report, _ in rows}))
    first = weights["FedAvg, one process"]
    same = all(torch.equal(first[k], own[k]) for own in weights.values() for k in first)
    print(f"\nthe same weights, to the last bit: {same}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
