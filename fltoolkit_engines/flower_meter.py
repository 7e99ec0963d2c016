"""A meter and codecs for an app of Flower that exists already.

Here: a mod for its ClientApp, and a grid around that of its ServerApp. Not here: the package's own
averaging over Flower (flower.py).

Arrays of an app are whole models in both directions, so the codec is that of the kind ``model``. A
node may be a new process for each message and a message may be lost, so codecs that remember
something, such as `ErrorFeedback`, are refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, walk
from fltoolkit.links import Link, check_whole

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict

__all__ = ["MeteredGrid", "metered_mod"]

MARK = "fltoolkit:"  # before the name of a record of arrays that travels as a message


def metered_mod(codecs: Mapping[str, Codec]) -> Callable[..., "Message"]:
    """A mod for ``ClientApp(mods=[...])``: arrays come and go as messages of `fltoolkit`.

    Args:
        codecs: the same as at the server, for the kind ``model``; ``{}`` for float32.
    """
    channel = _channel(codecs)

    def mod(message: "Message", context: "Context", call_next: Callable[..., Any]) -> "Message":
        node = f"node {message.metadata.dst_node_id}"
        message.content = _opened(channel, message.content, Link("server", node, "model"))
        reply: Message = call_next(message, context)
        if reply.has_content():
            reply.content = _sealed(channel, reply.content, Link(node, "server", "model"))
        return reply

    return mod


class MeteredGrid:
    """A grid that sends arrays as messages of `fltoolkit`, and counts both directions.

    ``strategy.start(grid=MeteredGrid(grid, codecs), ...)`` is all. ``channel`` has the ledger: the
    parties are ``server`` and ``node 123``; its ``step`` counts the calls of `send_and_receive`.
    """

    def __init__(self, grid: Any, codecs: Mapping[str, Codec]):
        self.grid, self.channel = grid, _channel(codecs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def send_and_receive(
        self, messages: "Iterable[Message]", *, timeout: float | None = None
    ) -> "Iterator[Message]":
        """As the grid's own, with the arrays of all messages encoded, counted and decoded."""
        self.channel.step += 1
        messages = list(messages)
        for message in messages:
            link = Link("server", f"node {message.metadata.dst_node_id}", "model")
            message.content = _sealed(self.channel, message.content, link)
        for reply in self.grid.send_and_receive(messages, timeout=timeout):
            if reply.has_content():
                link = Link(f"node {reply.metadata.src_node_id}", "server", "model")
                reply.content = _opened(self.channel, reply.content, link)
            yield reply


def _channel(codecs: Mapping[str, Codec]) -> Channel:
    channel = Channel(codecs)
    check_whole(channel.codecs.get("model"))
    for codec in channel.codecs.values():
        if any(part.in_order for part in walk(codec)):
            raise ValueError(f"{codec}: over Flower a message may be lost; leave Difference out")
    return channel


def _sealed(channel: Channel, content: "RecordDict", link: Link) -> "RecordDict":
    """The content with each record of arrays as one message; it may be shared, so it is copied."""
    from flwr.app import ArrayRecord, ConfigRecord, RecordDict

    sealed = RecordDict()
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            tree = {key: torch.tensor(array.numpy()) for key, array in record.items()}
            message = channel.links.codecs_of(link).sending.encode(tree)
            channel.count(link, message, tree)
            sealed[MARK + name] = ConfigRecord({"message": message})
        else:
            sealed[name] = record
    return sealed


def _opened(channel: Channel, content: "RecordDict", link: Link) -> "RecordDict":
    """The reverse of `_sealed`."""
    from flwr.app import ArrayRecord, RecordDict

    opened = RecordDict()
    for name, record in content.items():
        if name.startswith(MARK):
            message: Any = record["message"]
            tree = channel.decode(link, message)
            channel.count(link, message, tree)
            opened[name.removeprefix(MARK)] = ArrayRecord(torch_state_dict=tree)
        else:
            opened[name] = record
    return opened
