"""Meter and codecs for an app of Flower that you have: a mod for its clients, a grid at its server.

Arrays of an app are whole models in both directions: the codec is that of the kind ``model``. A
message may be lost, so codecs with a memory are refused. Not here: `fedavg` itself (flower.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, walk
from fltoolkit.links import Link, check_whole

__all__ = ["MeteredGrid", "metered_mod"]

MARK = "fltoolkit:"  # before the name of a record of arrays that travels as a message


def metered_mod(codecs: Mapping[str, Codec]) -> Callable[[Any, Any, Callable[..., Any]], Any]:
    """A mod for ``ClientApp(mods=[...])``. Codecs: as at the server, ``{}`` for float32."""
    meter = MeteredGrid(None, codecs)

    def mod(message: Any, context: Any, call_next: Callable[..., Any]) -> Any:
        node = f"node {message.metadata.dst_node_id}"
        meter.carry(message, Link("server", node, "model"), out=False)
        reply = call_next(message, context)
        return meter.carry(reply, Link(node, "server", "model"), out=True)

    return mod


class MeteredGrid:
    """Give it to a strategy in place of ``grid``. ``channel`` has the ledger; a step is a call."""

    def __init__(self, grid: Any, codecs: Mapping[str, Codec]):
        self.grid, self.channel = grid, Channel(codecs)
        check_whole(self.channel.codecs.get("model"))
        if any(part.in_order for codec in codecs.values() for part in walk(codec)):
            raise ValueError(f"{codecs}: over Flower a message may be lost; leave Difference out")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def send_and_receive(self, messages: Iterable[Any], **how: Any) -> Iterator[Any]:
        """As the grid's own, with the arrays of all messages encoded, counted and decoded."""
        self.channel.step += 1
        for message in (messages := list(messages)):
            link = Link("server", f"node {message.metadata.dst_node_id}", "model")
            self.carry(message, link, out=True)
        for reply in self.grid.send_and_receive(messages, **how):
            link = Link(f"node {reply.metadata.src_node_id}", "server", "model")
            yield self.carry(reply, link, out=False)

    def carry(self, message: Any, link: Link, *, out: bool) -> Any:
        """Make bytes of the arrays in a message (``out``), or the reverse; count them."""
        from flwr.app import ArrayRecord, ConfigRecord, RecordDict

        content = RecordDict()
        for name, record in message.content.items() if message.has_content() else ():
            if isinstance(record, ArrayRecord) and not out:
                raise ValueError(f"{link}: {name!r} came unmetered: add metered_mod to the clients")
            if isinstance(record, ArrayRecord):
                tree = {key: torch.tensor(array.numpy()) for key, array in record.items()}
                data = self.channel.links.codecs_of(link).sending.encode(tree)
                content[MARK + name] = ConfigRecord({"message": data})
            elif name.startswith(MARK):
                tree = self.channel.decode(link, data := record["message"])
                content[name.removeprefix(MARK)] = ArrayRecord(torch_state_dict=tree)
            else:
                content[name] = record
                continue
            self.channel.count(link, data, tree)
        if message.has_content():  # it may be shared between messages, so it is replaced
            message.content = content
        return message
