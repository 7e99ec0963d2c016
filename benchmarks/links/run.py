"""One link: bring it up, start both parties, read what they say."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.links.emulator import ADDRESSES, DEVICE, link
from benchmarks.links.settings import Setting
from experiments.runs import Result


def run(task: object, setting: Setting, seed: int) -> Result:
    """All methods over this link, once: seconds by the clock, of computing, bytes, messages."""
    start = time.perf_counter()
    name = f"fl{os.getpid() % 100_000}"
    with (
        tempfile.TemporaryDirectory() as folder,
        link(name, setting.up, setting.down, setting.latency) as spaces,
    ):
        files = [Path(folder) / f"{rank}.json" for rank in (0, 1)]
        command = (sys.executable, "-m", "benchmarks.links.party")
        counts = json.dumps(setting.counts())
        parties = [
            subprocess.Popen(
                [*("ip", "netns", "exec", space), *command, str(files[rank]), counts],
                env={
                    **os.environ,
                    **{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"},
                    **{"MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": "29501"},
                    **{"GLOO_SOCKET_IFNAME": DEVICE, "OMP_NUM_THREADS": "1"},
                },
            )
            for rank, space in enumerate(spaces)
        ]
        codes = [party.wait() for party in parties]
        if any(codes):
            raise RuntimeError(f"{setting.name}: the parties ended with {codes}")
        found = [json.loads(file.read_text()) for file in files]
    methods = [_joined(client, server) for client, server in zip(*found, strict=True)]
    return {
        **{"key": setting.key(task, seed), "seed": seed, "link": setting.name},
        **{"up": setting.up, "down": setting.down, "latency": setting.latency},
        **{"methods": methods, "seconds": round(time.perf_counter() - start, 1)},
    }


def _joined(client: dict[str, Any], server: dict[str, Any]) -> dict[str, Any]:
    """Both sides of one method as one: from the first start to the last end."""
    return {
        **{name: client[name] for name in ("method", "count", "messages")},
        **{name: client[name] for name in ("following", "outgrown")},
        **{name: client[name] for name in ("nbytes_up", "nbytes_down")},
        "wall": max(client["end"], server["end"]) - min(client["start"], server["start"]),
        **{"cpu_client": client["cpu"], "cpu_server": server["cpu"]},
    }
