"""A channel between syft datasites: the same protocols and the same bytes over another transport.

Here: `SyftChannel`. Not here: owners, peers and the Drive (syft.py).

The content of a message is the frame of fltoolkit/wire.py, byte for byte; its path describes it:

    messages/<sender's e-mail>/<fltoolkit version>/<run>/<step>-<number>-<kind>

``run`` is a random number of the channel, or made from a name that two processes have agreed on, so
that a message that remains from an earlier run is not mistaken for one of this run. ``number``
counts the messages from this sender to this receiver, from 0.
"""

import hashlib
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import fltoolkit
from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs.base import Codec
from fltoolkit.links import Link
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError
from fltoolkit_engines.remote import name_place

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

    In ``with SyftChannel(...) as channel:``, an error of torch names the step and the party.

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
        if not (timeout >= 0 and poll >= 0):
            raise ValueError(f"timeout={timeout}, poll={poll}: give seconds, 0 or more")
        self.timeout, self.poll = timeout, poll
        self.transport: list[int] = []  # bytes on the Drive, one number for each of `transfers`
        self._agreed = run is not None
        self._run = _hex(run)
        self._posted: dict[tuple[str, str], int] = {}  # number of messages by sender and receiver
        self._taken: dict[tuple[str, str], int] = {}
        self._runs: dict[str, str] = {}  # the runs of parties in other processes
        self._at = "nobody"  # the party that received the last message and computes now

    def post(self, sender: str, receiver: str, kind: str, tree: Tree) -> None:
        """The sender's half of `send`: encode the message and put it into the receiver's inbox."""
        self._post(Link(sender, receiver, kind), tree)

    def _post(self, link: Link, tree: Tree) -> None:
        sender, receiver, kind = link
        sending = self.links.codecs_of(link).sending
        site, number = self._site(sender), self._posted.get(link[:2], 0)
        path = f"{fltoolkit.__version__}/{self._run}/{self.step}-{number}-{kind}"
        try:
            message = sending.encode(tree)
            on_drive = site.post(receiver, path, message)
        except (OSError, TypeError, ValueError) as error:
            raise self._with_place(error, link) from error
        self._posted[link[:2]] = number + 1
        self.count(link, message, tree)
        self.transport.append(on_drive)

    def receive(self, sender: str, receiver: str, kind: str) -> Tree:
        """The receiver's half of `send`: wait for the message, check it, decode it.

        Raises:
            TimeoutError: no message came.
            WireError: the message is damaged or cannot be decrypted.
            PermissionError: its sender is no peer, or claims to be somebody else.
            ConnectionError: it is not the message that the protocol expects now: one is missing, or
                the parties are at different steps or have different versions of fltoolkit.
        """
        return self._receive(Link(sender, receiver, kind)).tree

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """`post`, then `receive`, if both ends are in this process."""
        self._post(link, tree)
        return self._receive(link)

    def _receive(self, link: Link) -> Delivery:
        sender, receiver, _ = link
        site = self._site(receiver)
        end = time.monotonic() + self.timeout
        try:
            while (found := self._take(site, link)) is None:
                if (left := end - time.monotonic()) <= 0:
                    raise TimeoutError(
                        f"{receiver} has waited {self.timeout:g} s and nothing came. If {sender} "
                        "has stopped, start it again and continue from the last save_run; if it is "
                        "slow, give a longer timeout"
                    )
                time.sleep(min(self.poll, left))
            message, on_drive = found
            received = self.decode(link, message)
        except (OSError, TypeError, ValueError) as error:
            raise self._with_place(error, link) from error
        self._at = receiver
        self._taken[link[:2]] = self._taken.get(link[:2], 0) + 1
        if sender not in self.sites:  # else it was counted when it was posted
            self.count(link, message, received)
            self.transport.append(on_drive)
        return Delivery(received, message)

    def _take(self, site: "Datasite", link: Link) -> tuple[bytes, int] | None:
        """The next message of this run from this sender; None if there is none yet.

        Raises ConnectionError if it is not the message that is expected.
        """
        sender, receiver, kind = link
        while (found := site.take(sender)) is not None:
            path, content, on_drive = found
            named = re.fullmatch(r"([^/]+)/([0-9a-f]{8})/(\d+)-(\d+)-([a-z]+)", path)
            if named is None:
                raise WireError(f"{path!r} is no name of a message")
            version, run, step, number, what = named.groups()
            ours = self._run
            if sender not in self.sites and not self._agreed:
                ours = self._runs.get(sender, run)
            elif run != ours:
                continue  # a message that remains from an earlier run
            if version != fltoolkit.__version__:
                raise ConnectionError(
                    f"{sender} runs fltoolkit {version}, {receiver} {fltoolkit.__version__}: the "
                    "bytes may mean something else. Install the same version on both sides"
                )
            if run != ours:
                raise ConnectionError(
                    f"{sender} has begun run {run} while {receiver} is in run {ours}: make a new "
                    "channel on both sides, and continue from the same save_run"
                )
            self._runs[sender] = run
            expected = self._taken.get(link[:2], 0)
            if (int(step), int(number), what) != (self.step, expected, kind):
                raise ConnectionError(
                    f"expected message {expected}, {kind} of step {self.step}; found message "
                    f"{number}, {what} of step {step}. A message was lost, or the parties run "
                    "different protocols: start both sides again from the same save_run"
                )
            return content, on_drive
        return None

    def _site(self, name: str) -> "Datasite":
        if name not in self.sites:
            raise ValueError(
                f"{name!r} is no datasite of this process, which has {list(self.sites)}: call "
                "`post` in the sender's process and `receive` in the receiver's"
            )
        return self.sites[name]

    def _with_place(self, error: Exception, link: Link) -> Exception:
        """The same error, with sender, receiver, kind and step in front."""
        sender, receiver, kind = link
        kinds = (WireError, PermissionError, TimeoutError, ConnectionError, TypeError, OSError)
        kind_of = next((k for k in kinds if isinstance(error, k)), ValueError)
        return kind_of(f"{sender} -> {receiver}, {kind}, step {self.step}: {error}")

    def __enter__(self) -> "SyftChannel":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            name_place(error, f"step {self.step}, at {self._at}")

    # ---- the ledger

    def nbytes_transport(
        self, *, sender: str | None = None, receiver: str | None = None, kind: str | None = None
    ) -> int:
        """Bytes that syft put on the Drive; the arguments choose messages as in `nbytes`."""
        chosen = self.which(sender=sender, receiver=receiver, kind=kind)
        return sum(self.transport[number] for number in chosen)

    def table(self) -> str:
        """For each link and kind: messages, their bytes, bytes on the Drive, and the ratio."""
        rows = [f"{'link':<34}{'messages':>9}{'bytes':>14}{'on the Drive':>14}{'ratio':>7}"]
        links = list(dict.fromkeys((t.sender, t.receiver, t.kind) for t in self.transfers))
        for a, b, kind in links:
            num = sum((t.sender, t.receiver, t.kind) == (a, b, kind) for t in self.transfers)
            ours = self.nbytes(sender=a, receiver=b, kind=kind)
            theirs = self.nbytes_transport(sender=a, receiver=b, kind=kind)
            name = f"{a} -> {b} {kind}"
            rows.append(f"{name:<34}{num:>9,}{ours:>14,}{theirs:>14,}{theirs / ours:>7.2f}")
        ours, theirs = self.nbytes(), self.nbytes_transport()
        ratio = f"{theirs / ours:>7.2f}" if ours else ""
        rows.append(f"{'all':<34}{len(self.transfers):>9,}{ours:>14,}{theirs:>14,}{ratio}")
        return "\n".join(rows)

    def state_dict(self) -> dict[str, Any]:
        """The state as in `Channel.state_dict`, with the bytes on the Drive."""
        return {**super().state_dict(), "transport": list(self.transport)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved `state_dict` as a new run, which skips older messages."""
        super().load_state_dict(state)
        self.transport = list(state["transport"])
        if not self._agreed:
            self._run = _hex(None)
        self._posted, self._taken, self._runs = {}, {}, {}


def _hex(run: str | None) -> str:
    """The name of a run in a path."""
    return secrets.token_hex(4) if run is None else hashlib.sha256(run.encode()).hexdigest()[:8]
