"""A SuperLink and two SuperNodes on this machine, with TLS and node authentication.

`python compare.py --deployment` runs it, with Flower and OpenSSL installed. It does what two real
machines would do, see README.md: a certificate for the SuperLink, a key for each SuperNode, whose
public half is registered at the SuperLink, and `flwr run`.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WAIT_SECONDS = 300
# Flower (1.42) ends a process that has not begun 30 s after it was started, which a busy machine
# does not keep; no option changes that. So its programs start with a longer time.
PATIENT = f"""import sys, flwr.common.constant
flwr.common.constant.HEARTBEAT_DEFAULT_INTERVAL = {WAIT_SECONDS}
from flwr.supernode.cli import flower_supernode
from flwr.superlink.cli import flower_superlink
sys.exit(flower_PROGRAM())"""


def free_ports(number: int) -> list[int]:
    """Ports that nobody uses, below 32768: no outgoing connection takes one before its program."""
    found: set[int] = set()
    while len(found) < number:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return [*found]


def answers(host: str, port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex((host, port)) == 0


@contextmanager
def programs(folder: Path, home: Path) -> Iterator[Callable[..., dict[str, str]]]:
    """Gives ``start(name, port, *options)``, which waits until the program listens at its port.

    ``host`` is its address, and ``inside`` a command that starts it elsewhere on this machine.
    ``start`` returns the environment of a ``flwr`` beside it. Where something fails, the end of
    each program's log is printed. All programs end with the block.
    """
    env = os.environ | {"FLWR_HOME": str(home), "PYTHONUNBUFFERED": "1"}
    # what the app needs is installed here already: do not let Flower make environments of its own
    env |= {"FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    home.mkdir(parents=True, exist_ok=True)
    running: dict[Path, subprocess.Popen[bytes]] = {}

    def start(
        name: str, port: int, *options: str, host: str = "127.0.0.1", inside: Sequence[str] = ()
    ) -> dict[str, str]:
        program = PATIENT.replace("PROGRAM", name.rstrip("0123456789"))
        command = [*inside, sys.executable, "-c", program, "--host", host, "--port", str(port)]
        command += options
        log = folder / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                command, cwd=folder, env=env, stdout=file, stderr=file, start_new_session=True
            )
        running[log] = process
        end = time.monotonic() + WAIT_SECONDS
        while not answers(host, port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} does not listen at port {port}, see its log above")
            time.sleep(0.3)
        return env

    try:
        yield start
    except Exception:
        for log in running:
            print(f"\n{log} ends:\n{log.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        for process in reversed(running.values()):  # and what it has started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def certificates(folder: Path, host: str) -> None:
    """A certificate authority of our own, and the SuperLink's certificate signed by it."""
    (folder / "san").write_text(f"subjectAltName=DNS:localhost,IP:{host}\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=our-ca -keyout ca.key -out ca.crt",
        "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr",
        "x509 -req -days 2 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile san "
        "-out server.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    for number in (0, 1):
        command = f"ssh-keygen -q -t ecdsa -b 384 -f node{number} -N".split()
        subprocess.run([*command, ""], cwd=folder, check=True)


@contextmanager
def deployed(
    folder: Path, hosts: tuple[str, str] = ("127.0.0.1", "127.0.0.1"), inside: Sequence[str] = ()
) -> Iterator[Callable[..., Any]]:
    """Start everything in this folder; gives ``run(app, *options)`` for the app in a folder.

    ``hosts``: addresses of the SuperLink and of the SuperNodes, which are started ``inside``.
    """
    certificates(folder, hosts[0])
    port, *of_nodes = free_ports(3)
    home, link = folder / "home", f"{hosts[0]}:{port}"
    with programs(folder, home) as start:
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\n'
            f'address = "{link}"\nroot-certificates = "{folder}/ca.crt"\n'
        )
        tls = "--ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key"
        env = start("superlink", port, *tls.split(), "--enable-supernode-auth", host=hosts[0])
        for number, own_port in enumerate(of_nodes):
            key = str(folder / f"node{number}.pub")
            command = ["flwr", "supernode", "register", key, "loopback"]
            subprocess.run(command, cwd=HERE, env=env, check=True)
            options = ["--root-certificates", "ca.crt", "--superlink", link]
            options += ["--auth-supernode-private-key", f"node{number}"]
            options += ["--node-config", f"partition-id={number} num-partitions=2"]
            start(f"supernode{number}", own_port, *options, host=hosts[1], inside=inside)

        def run(app: Path, *options: str, **how: Any) -> Any:
            command = ["flwr", "run", ".", "loopback", "--stream", *options]
            return subprocess.run(
                command, cwd=app, env=env, check=True, timeout=2 * WAIT_SECONDS, **how
            )

        yield run


def deploy(folder: Path, run_config: str) -> None:
    """Start everything in this folder, run the app once, and end everything."""
    with deployed(folder) as run:
        run(HERE, "--run-config", run_config)
