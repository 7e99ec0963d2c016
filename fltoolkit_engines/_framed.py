"""A model as one array, the bytes of a message: what the meters for Flower and NVFlare share."""

import torch

from fltoolkit.channel import Channel
from fltoolkit.links import Link
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
