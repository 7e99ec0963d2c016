"""Bytes that the meters count, beside those that the kernel sent.

    python -m benchmarks.socket_bytes                          # DistributedDataParallel; seconds
    python -m benchmarks.socket_bytes loop                     # a state_dict over a TCP connection
    python -m benchmarks.socket_bytes syft                     # PySyft's Drive in memory: no socket
    .venv-flower/bin/python -m benchmarks.socket_bytes flower  # ten minutes
    .venv-nvflare/bin/python -m benchmarks.socket_bytes nvflare  # five minutes

Linux. All processes are in a network namespace of their own, where no other program sends: the
counter of its loopback interface (/proc/net/dev) is what really crossed, TCP and IP headers
included. Flower's SuperNodes are in a namespace of their own, because its programs also talk to
each other within a machine: there the counter is that of a cable between both. The difference
between a long and a short run is divided by its steps or messages, so that the start does not
count.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Thread

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fltoolkit import Channel
from fltoolkit.codecs import Codec, Entropy, ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.links import Link
from fltoolkit.trees import Tree
from fltoolkit_engines.ddp_hook import metered

EXAMPLES = Path(__file__).parents[1] / "examples"
SIZE, SHORT, LONG = 2, 20, 120
ROUNDS = 2, 8  # of Flower and NVFlare
WIDE = 2120  # a hidden layer with which the examples have 159,010 parameters; theirs has 32
MODELS = (WIDE, ""), (WIDE, "8"), (32, "8")  # and bits
CODECS: dict[str, dict[str, Codec]] = {
    "float32": {},
    "8 bits": {"update": Pipeline(Quantize(8), Entropy())},
    "top-k 1 %, 8 bits, residual": {
        "update": ErrorFeedback(Pipeline(TopK(0.01), Quantize(8), Entropy()))
    },
}
Counts = tuple[int, int, int, float]  # messages, their bytes, those that crossed, and when


def crossed(interface: str = "lo") -> int:
    """Bytes that the loopback interface has sent, or a cable in both directions."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    fields = next(line for line in lines if line.strip().startswith(f"{interface}:")).split()
    return int(fields[9]) + (int(fields[1]) if interface != "lo" else 0)


def show(name: str, short: Counts, long: Counts, rate: float = 0.0) -> None:
    """A row of the table; ``rate``: bytes a second that cross while nothing is sent."""
    number, ours, real, seconds = (b - a for a, b in zip(short, long, strict=True))
    idle = f" {rate * seconds / number:,.0f} |" if rate else ""
    more = real - ours - rate * seconds
    words = f"{more / number:,.0f} ({100 * more / ours:.1f} %)"
    print(f"| {name} | {ours / number:,.0f} | {real / number:,.0f} |{idle} {words} |", flush=True)


def train(rank: int, where: str) -> None:
    """One of the processes; the first one prints a row for each codec."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=SIZE)
    for name, codecs in CODECS.items():
        counted = []
        for steps in (SHORT, LONG):
            torch.manual_seed(0)
            network = nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 10))
            model, channel = DistributedDataParallel(network), Channel(codecs)
            model.register_comm_hook(None, metered(channel))
            dist.barrier()
            before = crossed()
            for _ in range(steps):
                loss = nn.functional.cross_entropy(
                    model(torch.randn(32, 784)), torch.arange(32) % 10
                )
                model.zero_grad()
                loss.backward()
            dist.barrier()
            counted.append((steps, channel.nbytes(), crossed() - before, 0.0))
        if not rank:
            show(name, counted[0], counted[1])


def ddp(folder: Path) -> None:
    """Two processes of torch."""
    print("| gradients of 159,010 values | counted a step | sent a step | more |")
    print("|---|---|---|---|", flush=True)
    torch.multiprocessing.spawn(train, (f"file://{folder}/meet",), nprocs=SIZE)


def apps(
    app: str, run: Callable[[Path, str], tuple[int, int]], line: str, rate: float = 0.0
) -> None:
    """Rows of the example ``app``, which ``run`` runs in a folder, over an interface."""
    idle = " of it waiting |" if rate else ""
    print(f"| {app}: values | counted a message | sent a message |{idle} more |")
    print("|---|---|---|---|" + "---|" * bool(rate))
    for hidden, bits in MODELS:
        counted = []
        for rounds in ROUNDS:
            with tempfile.TemporaryDirectory() as folder:
                for file in (EXAMPLES / app).glob("*.*"):
                    text = file.read_text().replace("num_rounds=5", f"num_rounds={rounds}")
                    text = text.replace("(64, 32)", f"(64, {hidden})").replace(
                        "(32,", f"({hidden},"
                    )
                    text = text.replace("NUM_NODES = 3", "NUM_NODES = 2")
                    text = text if bits else re.sub(r"(?m)^CODECS = .*", "CODECS = {}", text)
                    (Path(folder) / file.name).write_text(text)
                before, began = crossed(line), time.monotonic()
                sent = run(Path(folder), bits)
                counted.append((*sent, crossed(line) - before, time.monotonic() - began))
        show(named(hidden, bits), counted[0], counted[1], rate)


def named(hidden: int, bits: str) -> str:
    """The first cell of a row."""
    return f"{75 * hidden + 10:,}, {f'{bits} bits' if bits else 'float32'}"


def models(what: str, send: Callable[[dict[str, Codec], Tree, int], tuple[int, int]]) -> None:
    """A row for each model: ``send`` sends it so many times, and returns both numbers of bytes.

    The least of forty times: a busy machine sends some segments again.
    """
    print(f"| {what} | counted a message | sent a message | more |\n|---|---|---|---|")
    for hidden, bits in MODELS:
        torch.manual_seed(0)
        tree = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10)).state_dict()
        codecs = CODECS["8 bits" if bits else "float32"]
        short, long = ((n, *min(send(codecs, tree, n) for _ in range(40)), 0.0) for n in ROUNDS)
        show(named(hidden, bits), short, long)


def loop(folder: Path) -> None:
    """Messages of a loop over a plain connection of TCP."""

    def send(codecs: dict[str, Codec], tree: Tree, number: int) -> tuple[int, int]:
        channel, link, before = Channel(codecs), Link("client", "server", "update"), crossed()
        with Listener(("127.0.0.1", 0)) as door, Client(door.address) as out, door.accept() as end:
            reader = Thread(target=lambda: [end.recv_bytes() for _ in range(number)])
            reader.start()
            message = channel.links.codecs_of(link).sending.encode(tree)
            for _ in range(number):
                channel.count(link, message, tree)
                out.send_bytes(message)
            reader.join()
        return channel.nbytes(), crossed() - before

    models("a `state_dict`: values", send)


def syft(folder: Path) -> None:
    """What PySyft puts on its Drive, which is in memory here."""
    from fltoolkit_engines.syft import MockDrive
    from fltoolkit_engines.syft_channel import SyftChannel

    drive = MockDrive()
    alice, bob = drive.join("alice"), drive.join("bob")
    alice.ask("bob")
    bob.accept("alice")

    def send(codecs: dict[str, Codec], tree: Tree, number: int) -> tuple[int, int]:
        channel = SyftChannel([alice, bob], codecs)
        for _ in range(number):
            channel.send("alice", "bob", "update", tree)
        return channel.nbytes(), channel.nbytes_transport()

    models("PySyft: values", send)


def nvflare(folder: Path) -> None:
    """NVFlare's simulator: a server and three sites."""

    def run(app: Path, bits: str) -> tuple[int, int]:
        command = [sys.executable, "job.py", *bits]
        said = subprocess.run(command, cwd=app, check=True, capture_output=True, text=True).stdout
        sent = set(re.findall(r"fltoolkit: (\S+) sent (\d+) messages, ([\d,]+) bytes", said))
        return sum(int(s[1]) for s in sent), sum(int(s[2].replace(",", "")) for s in sent)

    apps("nvflare_meter", run, "lo")


def flower(folder: Path) -> None:
    """A SuperLink here and two SuperNodes behind a cable, with TLS and node authentication."""
    sys.path.insert(0, str(EXAMPLES / "flower"))
    from loopback import deployed

    def run(app: Path, bits: str) -> tuple[int, int]:
        said = deployment(app, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        (nbytes, messages), *_ = re.findall(r"([\d,]+) bytes in (\d+) messages", said)
        return int(messages), int(nbytes.replace(",", ""))

    there = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    inside = ["nsenter", "--net", "--target", str(there.pid)]
    time.sleep(1)  # until it has its namespace
    here, node = "10.0.0.1", "10.0.0.2"
    add = f"ip link add cable mtu 65535 type veth peer name end mtu 65535 netns {there.pid}"
    for command in (add, f"ip addr add {here}/24 dev cable", "ip link set cable up"):
        subprocess.run(command.split(), check=True)
    for command in ("ip link set lo up", f"ip addr add {node}/24 dev end", "ip link set end up"):
        subprocess.run([*inside, *command.split()], check=True)
    try:
        with deployed(folder, (here, node), inside) as deployment:
            before = crossed("cable")
            time.sleep(60)
            rate = (crossed("cable") - before) / 60
            print(f"a SuperNode that waits: {rate / 2:,.0f} bytes a second")
            apps("flower_meter", run, "cable", rate)
    finally:
        there.kill()


def main() -> None:
    """Make a namespace, and run in it."""
    what = sys.argv[1] if len(sys.argv) > 1 else "ddp"
    if sys.argv[2:] != ["inside"]:
        again = f"ip link set lo up && {sys.executable} -m benchmarks.socket_bytes {what} inside"
        alone = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", again]
        subprocess.run(alone, check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        {"ddp": ddp, "loop": loop, "syft": syft, "flower": flower, "nvflare": nvflare}[what](
            Path(folder)
        )


if __name__ == "__main__":
    main()
