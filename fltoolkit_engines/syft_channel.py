"""A channel between syft datasites: the same protocols and the same bytes over another transport.

Here: `SyftChannel`. Not here: owners, peers and the Drive (syft.py).

The content of a message is the frame of fltoolkit/wire.py, byte for byte; its path describes it:

    messages/<sender's e-mail>/<fltoolkit version>/<run>/<step>-<number>-<kind>

``run`` is a random number of the channel, or made from a name that two processes have agreed on:
messages of other runs are skipped. ``number`` counts the messages from this sender to this
receiver, from 0.
"""

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import fltoolkit
from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs.base import Codec
from fltoolkit.links import Link
from fltoolkit.trees import Tree

if TYPE_CHECKING:
    from fltoolkit_engines.syft import Datasite

__all__ = ["SyftChannel"]


class SyftChannel(Channel):
    """A `Channel` between datasites. Give it to any protocol in place of a `Channel`.

    `nbytes_transport` counts the bytes that syft put on the Drive for the messages.

    If only one end of a link is a datasite of this process, call the two halves of `send` instead:
    `post` here and `receive` in the other process, in the order of the protocol. Both sides must
    increase ``channel.step``, and each has its own half of the ledger. Do not call `sync` on a
    datasite while messages are on their way: it would accept them as files.

    Args:
        sites: the datasites of this process.
        codecs: as for `Channel`.
        timeout: seconds to wait for a message.
        poll: seconds between two looks at the Drive; each look is a request to it.
        run: needed between processes: a name that all of them give and that is new for each start,
            such as ``"monday 2"``, so that messages of an earlier run are skipped.
    """

    def __init__(
        self,
        sites: "Iterable[Datasite]",
        codecs: Mapping[str, Codec] | None = None,
        *,
        timeout: float = 120.0,
        poll: float = 1.0,
        run: str | None = None,
    ):
        super().__init__(codecs)
        self.sites = {site.name: site for site in sites}
        self.timeout, self.poll = timeout, poll
        # since this channel was made, by link: messages, their bytes, bytes on the Drive
        self.on_drive: dict[Link, tuple[int, int, int]] = {}
        self._run = hashlib.sha256((run or secrets.token_hex(16)).encode()).hexdigest()[:8]
        self._posted: Counter[tuple[str, str]] = Counter()  # messages by sender and receiver
        self._taken: Counter[tuple[str, str]] = Counter()

    def post(self, sender: str, receiver: str, kind: str, tree: Tree) -> None:
        """The sender's half of `send`: encode the message and put it into the receiver's inbox."""
        link, ends = Link(sender, receiver, kind), (sender, receiver)
        try:
            message = self.links.codecs_of(link).sending.encode(tree)
            path = self._path(link, self._posted[ends])
            on_drive = self._site(sender).post(receiver, path, message)
        except (OSError, TypeError, ValueError) as error:
            raise type(error)(f"{link}, step {self.step}: {error}") from error
        self._posted[ends] += 1
        self._count(link, message, tree, on_drive)

    def receive(self, sender: str, receiver: str, kind: str) -> Tree:
        """The receiver's half of `send`: wait for the message, check it, decode it.

        Raises:
            TimeoutError: no message came.
            WireError: the message is damaged or cannot be decrypted.
            PermissionError: its sender is no peer, or claims to be somebody else.
            ConnectionError: it is another message of this run than the protocol expects now: one is
                missing, or the parties have different steps or versions of fltoolkit.
        """
        return self._receive(Link(sender, receiver, kind)).tree

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """`post`, then `receive`, if both ends are in this process."""
        self.post(*link, tree)
        return self._receive(link)

    def _receive(self, link: Link) -> Delivery:
        site, end = self._site(link.receiver), time.monotonic() + self.timeout
        try:
            while (found := self._take(site, link)) is None:
                if (left := end - time.monotonic()) <= 0:
                    raise TimeoutError(
                        f"{link.receiver} has waited {self.timeout:g} s and nothing came. If "
                        f"{link.sender} has stopped, start both again from the last save_run; if "
                        "it is slow, give a longer timeout; two processes need the same run="
                    )
                time.sleep(min(self.poll, left))
            message, on_drive = found
            received = self.decode(link, message)
        except (OSError, TypeError, ValueError) as error:
            raise type(error)(f"{link}, step {self.step}: {error}") from error
        self._taken[link.sender, link.receiver] += 1
        if link.sender not in self.sites:  # else it was counted when it was posted
            self._count(link, message, received, on_drive)
        return Delivery(received, message)

    def _take(self, site: "Datasite", link: Link) -> tuple[bytes, int] | None:
        """The next message of this run, and its bytes on the Drive; None if there is none yet."""
        expected = self._path(link, self._taken[link.sender, link.receiver])
        while (found := site.take(link.sender)) is not None:
            path, content, on_drive = found
            if path == expected:
                return content, on_drive
            if f"/{self._run}/" in path:  # others remain from an earlier run
                raise ConnectionError(
                    f"expected message {expected}, found {path} (version/run/step-number-kind). A "
                    "message was lost, or the parties have different versions or protocols: start "
                    "both sides again from the same save_run"
                )
        return None

    def _path(self, link: Link, number: int) -> str:
        return f"{fltoolkit.__version__}/{self._run}/{self.step}-{number}-{link.kind}"

    def _count(self, link: Link, message: bytes, tree: Tree, on_drive: int) -> None:
        self.count(link, message, tree)
        num, ours, theirs = self.on_drive.get(link, (0, 0, 0))
        self.on_drive[link] = num + 1, ours + len(message), theirs + on_drive

    def _site(self, name: str) -> "Datasite":
        if name not in self.sites:
            raise ValueError(
                f"{name!r} is no datasite of this process, which has {list(self.sites)}: call "
                "`post` in the sender's process and `receive` in the receiver's"
            )
        return self.sites[name]

    # ---- the ledger

    def nbytes_transport(self) -> int:
        """Bytes that syft put on the Drive since this channel was made."""
        return sum(theirs for _, _, theirs in self.on_drive.values())

    def table(self) -> str:
        """For each link and kind: messages, their bytes, bytes on the Drive, and the ratio.

        After `load_run`, without what was sent before.
        """
        counts: dict[str, tuple[int, ...]] = {
            f"{a} -> {b} {kind}": row for (a, b, kind), row in self.on_drive.items()
        }
        all_links = self.on_drive.values()
        counts["all"] = tuple(sum(row[column] for row in all_links) for column in range(3))
        rows = [f"{'link':<34}{'messages':>9}{'bytes':>14}{'on the Drive':>14}{'ratio':>7}"]
        for name, (num, ours, theirs) in counts.items():
            ratio = theirs / max(ours, 1)
            rows.append(f"{name:<34}{num:>9,}{ours:>14,}{theirs:>14,}{ratio:>7.2f}")
        return "\n".join(rows)
