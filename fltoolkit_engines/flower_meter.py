"""Meter and codecs for an app of Flower that you have: a mod for its clients, a grid at its server.

Arrays of an app are whole models in both directions: the codec is that of the kind ``model``. A
message may be lost, so codecs with a memory are refused. examples/flower runs `fedavg` itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec
from fltoolkit.links import Link
from fltoolkit_engines._framed import check_codecs, framed, unframed

__all__ = ["MeteredGrid", "check_codecs", "metered_mod"]


def metered_mod(codecs: Mapping[str, Codec]) -> Callable[[Any, Any, Callable[..., Any]], Any]:
    """A mod for ``ClientApp(mods=[...])``. Codecs: as at the server, ``{}`` for float32."""
    check_codecs(codecs)
    channel = Channel(codecs)

    def mod(message: Any, context: Any, call_next: Callable[..., Any]) -> Any:
        node = f"node {message.metadata.dst_node_id}"
        _carry(unframed, channel, message, Link("server", node, "model"))
        return _carry(framed, channel, call_next(message, context), Link(node, "server", "model"))

    return mod


class MeteredGrid:
    """Give it to a strategy in place of ``grid``. ``channel`` has the ledger; a step is a call."""

    def __init__(self, grid: Any, codecs: Mapping[str, Codec]):
        self.grid, self.channel = grid, Channel(codecs)
        check_codecs(codecs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def send_and_receive(self, messages: Iterable[Any], **how: Any) -> Iterator[Any]:
        """As the grid's own, with the arrays of all messages encoded, counted and decoded."""
        self.channel.step += 1
        for message in (messages := list(messages)):
            node = f"node {message.metadata.dst_node_id}"
            _carry(framed, self.channel, message, Link("server", node, "model"))
        for reply in self.grid.send_and_receive(messages, **how):
            node = f"node {reply.metadata.src_node_id}"
            yield _carry(unframed, self.channel, reply, Link(node, "server", "model"))


def _carry(change: Any, channel: Channel, message: Any, link: Link) -> Any:
    """Change the arrays in a message; one that reports an error has none."""
    if message.has_content():
        content = message.content.copy()  # it may be shared between messages
        for name, record in message.content.array_records.items():
            content[name] = type(record)(change(channel, link, record.to_torch_state_dict()))
        message.content = content
    return message
