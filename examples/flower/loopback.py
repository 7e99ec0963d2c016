"""Run the app on a SuperLink and two SuperNodes on this machine, with TLS and node authentication.

    python loopback.py                        # in this folder, with Flower and OpenSSL installed
    python loopback.py --run-config "rounds=3"

Certificates, keys and logs go into a new folder (--folder) and stay there. What it does is what two
real machines would do, see README.md: a certificate for the SuperLink, a key for each SuperNode,
whose public half is registered at the SuperLink, and `flwr run`.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
WAIT_SECONDS = 120


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int, log: Path, process: subprocess.Popen) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as line:
            if line.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.3)
    raise SystemExit(f"port {port} did not open. {log} ends:\n{log.read_text()[-1500:]}")


def certificates(folder: Path) -> None:
    """A certificate authority of our own, and the SuperLink's certificate signed by it."""
    (folder / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=our-ca -keyout ca.key -out ca.crt",
        "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr",
        "x509 -req -days 2 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile san "
        "-out server.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    for number in (0, 1):
        command = f"ssh-keygen -q -t ecdsa -b 384 -N , -f node{number}"
        words = [word if word != "," else "" for word in command.split()]
        subprocess.run(words, cwd=folder, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--run-config", default="rounds=3")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that the others end too
    folder = (args.folder or Path(tempfile.mkdtemp(prefix="flower-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    certificates(folder)
    port = free_port()
    # what the app needs is installed here already: do not let Flower make environments of its own
    env = os.environ | {"FLWR_HOME": str(folder / "home")}
    env |= {"FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home/config.toml").write_text(
        f'[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\n'
        f'address = "127.0.0.1:{port}"\nroot-certificates = "{folder}/ca.crt"\n'
    )
    processes = []

    def start(name: str, *command: str) -> tuple[subprocess.Popen, Path]:
        log = folder / f"{name}.log"
        with open(log, "w") as file:
            process = subprocess.Popen(
                command, cwd=folder, env=env, stdout=file, stderr=file, start_new_session=True
            )
        processes.append(process)
        return process, log

    try:
        tls = "--ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key"
        command = f"flower-superlink {tls} --port {port} --enable-supernode-auth"
        link, log = start("superlink", *command.split())
        wait_for(port, log, link)
        for number in (0, 1):
            key = folder / f"node{number}.pub"
            command = ["flwr", "supernode", "register", str(key), "loopback"]
            subprocess.run(command, cwd=HERE, env=env, check=True)
            command = ["flower-supernode", "--root-certificates", "ca.crt"]
            command += ["--superlink", f"127.0.0.1:{port}", "--port", str(free_port())]
            command += ["--auth-supernode-private-key", f"node{number}"]
            command += ["--node-config", f"partition-id={number} num-partitions=2"]
            start(f"node{number}", *command)
        begin = time.perf_counter()
        command = ["flwr", "run", ".", "loopback", "--stream", "--run-config", args.run_config]
        subprocess.run(command, cwd=HERE, env=env, check=True)
        print(f"{time.perf_counter() - begin:.0f} s; certificates and logs are in {folder}")
    finally:
        for process in reversed(processes):  # and what it has started
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


if __name__ == "__main__":
    main()
