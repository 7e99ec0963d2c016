"""A model as one array, for the meters of Flower and NVFlare; which codecs Flower can carry."""

from collections.abc import Mapping

import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs.base import Codec, walk
from fltoolkit.links import Link, check_whole
from fltoolkit.trees import Tree

FRAME = "fltoolkit"  # the name of the array


def framed(channel: Channel, link: Link, tree: Tree) -> Tree:
    """Encode a model for this link, and count the message."""
    message = channel.links.codecs_of(link).sending.encode(tree)
    channel.count(link, message, tree)
    return {FRAME: torch.frombuffer(bytearray(message), dtype=torch.uint8)}


def unframed(channel: Channel, link: Link, tree: Tree) -> Tree:
    """Decode what `framed` made, and count it. Raises ValueError if it is a model as it was."""
    if tree.keys() != {FRAME}:
        raise ValueError(f"{link}: {[*tree][:3]} came unmetered: the other end has no meter")
    message = tree[FRAME].numpy().tobytes()
    tree = channel.decode(link, message)
    channel.count(link, message, tree)
    return tree


def check_codecs(codecs: Mapping[str, Codec]) -> None:
    """Raise ValueError for codecs that need every message, or do not send whole models."""
    check_whole(codecs.get("model"))
    for kind, codec in codecs.items():
        if any(part.in_order for part in walk(codec)):
            raise ValueError(
                f"{kind}: {codec}: over Flower a message may be lost; use no Difference"
            )
