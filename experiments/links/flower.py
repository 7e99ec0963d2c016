"""Federated averaging on the same links, deployed with Flower: the clock, and where it goes.

    python -m experiments.links.flower             # what is missing
    python -m experiments.links.flower --report    # the tables from what is there
    python -m experiments.links.flower --write     # the same, into docs/links.md

A SuperLink with its ServerApp is at one end of the link, a SuperNode with its ClientApp at the
other. Running it needs what `experiments.links` needs, and Flower: use the environment that
``make flower`` makes. A line of JSON in ``--out`` is a finished link, and is not run again.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from experiments.links import methods as gloo
from experiments.links.__main__ import summary
from experiments.links.emulator import ADDRESSES, link
from experiments.links.flower_report import METHODS, PAGE, WARM, report
from experiments.links.settings import Setting, settings
from experiments.runs import STORED, Result, chosen, options, read, rows_of, sweep

RESULTS = STORED / "links_flower.jsonl"
ROUNDS = 4
REPEATS = 2
PORT, START = 9092, 120  # at most so many seconds until the SuperLink listens
APP = """[project]
name = "links"
version = "0.1.0"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "fltoolkit"
[tool.flwr.app.components]
serverapp = "links_app:server"
clientapp = "links_app:client"
[tool.flwr.app.config]
method = ""
out = ""
rounds = 1
"""
MODULE = """from experiments.links import flower_app
server = flower_app.server
client = flower_app.client
"""
STAGES = ("Receiving: train", "Received succ", "Sending: train", "Sent succ")


def run(task: object, setting: Setting, seed: int, rounds: int = ROUNDS) -> Result:
    """Both methods over this link, once."""
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as name,
        link(f"ff{os.getpid() % 100_000}", setting.up, setting.down, setting.latency) as spaces,
        deployed(Path(name), *spaces) as (env, log),
    ):
        methods = [train(method, rounds, Path(name), spaces[1], env, log) for method in METHODS]
    return {
        **{"key": setting.key(task, seed), "seed": seed, "link": setting.name},
        **{"up": setting.up, "down": setting.down, "latency": setting.latency},
        "flwr": version("flwr"),
        **{"methods": methods, "seconds": round(time.perf_counter() - start, 1)},
    }


@contextmanager
def deployed(
    folder: Path, near: str, far: str
) -> Iterator[tuple[dict[str, str], list[tuple[float, str]]]]:
    """A SuperLink and a SuperNode; gives their environment, and the node's log with times."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "FLWR_HOME": str(folder / "home")}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    env |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
    (folder / "home").mkdir()
    (folder / "home/config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{PORT}"\n'
        "insecure = true\n"
    )
    (folder / "app").mkdir()
    (folder / "app/pyproject.toml").write_text(APP)
    (folder / "app/links_app.py").write_text(MODULE)
    commands = (
        f"{far} flower-superlink --insecure --host 0.0.0.0 --port {PORT}",
        f"{near} flower-supernode --insecure --superlink {ADDRESSES[1]}:{PORT} --port 9094",
    )
    logs: list[list[tuple[float, str]]] = [[], []]
    processes = [
        subprocess.Popen(
            ["ip", "netns", "exec", *command.split()],
            **{"cwd": folder, "env": env, "text": True, "start_new_session": True},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
        )
        for command in commands
    ]

    def follow(process: subprocess.Popen[str], into: list[tuple[float, str]]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            into.append((time.time(), line))

    for process, into in zip(processes, logs, strict=True):
        threading.Thread(target=follow, args=(process, into), daemon=True).start()
    try:
        end = time.monotonic() + START
        while not any("Uvicorn running" in line for _, line in logs[0]):
            if time.monotonic() > end:
                raise RuntimeError(f"no SuperLink after {START} s; its log: {logs[0]}")
            time.sleep(0.2)
        yield env, logs[1]
    finally:
        for process in reversed(processes):  # and what it has started
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def train(
    method: str,
    rounds: int,
    folder: Path,
    space: str,
    env: dict[str, str],
    log: list[tuple[float, str]],
) -> Result:
    """One run of the app: the clock of its rounds, in parts."""
    out = Path(tempfile.mkdtemp(dir=folder))
    changes = f"method='{method}' out='{out}' rounds={WARM + rounds}"
    command = ["ip", "netns", "exec", space, "flwr", "run", "app", "here", "--stream"]
    ended = subprocess.run(
        [*command, "--run-config", changes], cwd=folder, env=env, text=True, capture_output=True
    )
    if ended.returncode or not (out / "server.jsonl").exists():
        raise RuntimeError(f"{method}: {ended.stdout}{ended.stderr}")
    server, client = (
        [json.loads(line) for line in (out / f"{side}.jsonl").read_text().splitlines()]
        for side in ("server", "client")
    )
    stages = [[at for at, line in log if stage in line][-len(server) :] for stage in STAGES]
    counts = [len(each) for each in (server, client[1:], *stages)]  # the first answer: who it is
    if set(counts) != {WARM + rounds}:
        raise RuntimeError(f"{method}: {counts} rounds at server, client and in the log")
    start, end = server[WARM - 1], server[-1]
    return {
        **{"method": method, "count": rounds, "messages": 2 * rounds},
        **{"wall": end["time"] - start["time"], "accuracy": end["accuracy"]},
        **{"cpu_client": sum(each["cpu"] for each in client[-rounds:])},
        **{"cpu_process": sum(each["process"] for each in client[-rounds:])},
        **{"cpu_server": end["cpu"] - start["cpu"]},
        **{
            f"{what}_{way}": end[f"{what}_{way}"] - start[f"{what}_{way}"]
            for what in ("nbytes", "below")
            for way in ("up", "down")
        },
        "rounds": [  # when it ended at the server, and what the node's log said when
            [round(at, 3) for at in (one["time"], *when)]
            for one, *when in zip(server, *stages, strict=True)
        ],
    }


def main() -> None:
    """The command line."""
    parser = options(__doc__, RESULTS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="that are counted")
    args = parser.parse_args()
    mine = chosen(links(), args)
    if args.report or args.write:
        PAGE.tell(report(rows_of(None, mine, read(args.out))), args)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that the others end too
    jobs = [(None, setting, n) for n in range(args.repeats) for setting in mine]
    sweep(partial(run, rounds=args.rounds), jobs, args.out, summary=summary)


def links() -> list[Setting]:
    """Those of the other engine, the slow ones first."""
    chosen = [s for s in settings() if s.methods == tuple(gloo.METHODS) and s.slow_start]
    return sorted(chosen, key=lambda setting: min(setting.up, setting.down))


if __name__ == "__main__":
    main()
