"""Two network namespaces with a link between them: rate each way, and a delay.

The rate is the kernel's token bucket (``tc ... tbf``) at the sending end of each direction. The
delay is ours, because ``netem`` is missing on many machines: each end is a TUN device, and this
process carries every packet from one to the other after the delay. It is a process of its own, so
that packets do not wait for somebody's computing.

    python -m benchmarks.links.emulator NAME RATE_UP RATE_DOWN LATENCY

(rates in bytes per second, latency in seconds, one way) prints ``ready`` when the link is up, and
takes it down when its standard input ends. Side A is the namespace NAMEa with address 10.78.0.1,
side B is NAMEb with 10.78.0.2; up is from A to B.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
ADDRESSES = ("10.78.0.1", "10.78.0.2")
DEVICE = "link0"
FAST = 50e6  # bytes per second: from here on packets are large, or this process could not keep up


def mtu(rate: float) -> int:
    """Bytes of a packet: Ethernet's, and larger ones on fast links."""
    return 1500 if rate < FAST else 15_000


def bucket(rate: float) -> int:
    """Bytes that pass at once after a pause; the kernel wants room for a packet at least."""
    return 2 * mtu(rate)


@contextmanager
def link(name: str, up: float, down: float, latency: float) -> Iterator[tuple[str, str]]:
    """The namespaces of both sides while the link is up; rates in bytes per second."""
    command = [sys.executable, "-m", "benchmarks.links.emulator", name]
    relay = subprocess.Popen(
        [*command, str(up), str(down), str(latency)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert relay.stdout is not None
        if relay.stdout.readline() != "ready\n":
            raise OSError("no link: it needs Linux, root, iproute2 and /dev/net/tun")
        yield f"{name}a", f"{name}b"
    finally:
        assert relay.stdin is not None
        relay.stdin.close()
        relay.wait()


def main(name: str, up: float, down: float, latency: float) -> None:
    """Bring the link up, carry packets until standard input ends, and take it down."""
    spaces = (f"{name}a", f"{name}b")
    try:
        ends = [_end(s, a, r) for s, a, r in zip(spaces, ADDRESSES, (up, down), strict=True)]
        print("ready", flush=True)
        _carry(ends, latency)
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def _end(space: str, address: str, rate: float) -> int:
    """A namespace with a TUN device that sends at this rate; the device's file."""
    device = f"{space}0"[-15:]
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI)
    fcntl.ioctl(file, TUNSETIFF, request)
    size = mtu(rate)
    inside = f"ip -n {space}"
    shape = f"tbf rate {8 * rate:.0f}bit burst {bucket(rate)} limit 20000000"
    for command in (
        f"ip netns add {space}",
        f"ip link set {device} netns {space} name {DEVICE}",
        f"{inside} addr add {address}/24 dev {DEVICE}",
        f"{inside} link set {DEVICE} mtu {size} txqueuelen 10000 up",
        f"{inside} link set lo up",
        f"ip netns exec {space} tc qdisc add dev {DEVICE} root {shape}",
        f"{inside} route change 10.78.0.0/24 dev {DEVICE} src {address} congctl lock cubic",
    ):
        subprocess.run(command.split(), check=True)
    return file


def _carry(ends: list[int], latency: float) -> None:
    """Every packet from one end to the other, ``latency`` seconds after it came."""
    under_way: list[deque[tuple[float, bytes]]] = [deque(), deque()]
    while True:
        first = min((packets[0][0] for packets in under_way if packets), default=None)
        wait = None if first is None else max(0.0, first - time.monotonic())
        ready = select.select([*ends, sys.stdin], [], [], wait)[0]
        if sys.stdin in ready:
            return
        for end, packets in zip(ends, under_way, strict=True):
            if end in ready:
                for packet in _waiting(end):
                    packets.append((time.monotonic() + latency, packet))
        now = time.monotonic()
        for end, packets in zip(reversed(ends), under_way, strict=True):
            while packets and packets[0][0] <= now:
                os.write(end, packets.popleft()[1])


def _waiting(end: int) -> Iterator[bytes]:
    """The packets that are there now, at most 64 at a time."""
    for _ in range(64):
        try:
            yield os.read(end, 65_536)
        except BlockingIOError:
            return


if __name__ == "__main__":
    main(sys.argv[1], *map(float, sys.argv[2:]))
