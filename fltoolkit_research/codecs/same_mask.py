"""Gradients at the places of the activations that they answer: the places cost no bytes.

Here: the stage that sends no places, and the channel that gives it those of the answered message.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs.base import Codec, walk
from fltoolkit.codecs.stage import Parts, Stage, expect_finite, floats, tensors_of
from fltoolkit.links import Link
from fltoolkit.trees import Tree
from fltoolkit.wire import WireError, check_num_values


@dataclass
class SameMask(Stage):
    """Send the values at the places of the message that this one answers, and no places.

    Both ends know which activations were kept, so the places of the gradient need not be sent. The
    other values of the gradient are lost, as in the paper; notebooks/appendix_top_k.ipynb shows
    what is gained if they are sent, too. The tensors must have the order and shapes of those of the
    answered message. This stage works only in a `SameMaskChannel`.

    Source: Zheng et al. 2023, arXiv 2305.18469, section 3.
    """

    answers: str = "activations"  # the kind of message, in the other direction
    places: list[Tensor] | None = field(default=None, init=False, repr=False, compare=False)

    def apply(self, parts: Parts) -> Parts:
        """Keep the values at the places of the answered message."""
        masks, entries = self._masks(), floats(parts)
        if empty := [n for n, t in tensors_of(parts, torch.float32).items() if not t.numel()]:
            raise ValueError(f"entry {empty[0]!r} is empty: leave it out, it answers nothing")
        if [mask.shape for mask in masks] != [tensor.shape for tensor in entries.values()]:
            raise ValueError(
                f"shapes {[tuple(t.shape) for t in entries.values()]} do not answer the last "
                f"{self.answers}, which had {[tuple(mask.shape) for mask in masks]}"
            )
        kept = zip(entries.items(), masks, strict=True)
        return {**parts, **{name: tensor[mask] for (name, tensor), mask in kept}}

    def undo(self, parts: Parts) -> Parts:
        """Tensors of zeros, with the values that were sent at their places."""
        masks, entries, out = self._masks(), tensors_of(parts, torch.float32), dict(parts)
        if len(masks) != len(entries):
            raise WireError(f"{len(entries)} entries for {len(masks)} masks: another codec made it")
        check_num_values(sum(mask.numel() for mask in masks))
        for (name, values), mask in zip(expect_finite(entries).items(), masks, strict=True):
            if values.shape != (int(mask.sum()),):
                raise WireError(
                    f"entry {name!r}: {tuple(values.shape)} values, {mask.sum()} places"
                )
            out[name] = torch.zeros(mask.shape).masked_scatter(mask, values)
        return out

    def _masks(self) -> list[Tensor]:
        if self.places is None:
            raise ValueError(
                f"{self!r} answers {self.answers} that were made sparse, and none crossed in the "
                "other direction: use it in a SameMaskChannel whose codec for them has TopK or "
                "the like"
            )
        return self.places


class SameMaskChannel(Channel):
    """A channel whose gradients may be sent at the places of the activations that they answer.

    It is a `fltoolkit.Channel` in which the stage `SameMask` can be used, such as in the codec of
    the gradients. Both ends of a link must be in this process, and ``codecs`` a mapping.

    >>> from fltoolkit.codecs import Pipeline, TopK
    >>> codecs = {"activations": Pipeline(TopK(0.25)), "gradients": Pipeline(SameMask())}
    >>> channel = SameMaskChannel(codecs)
    >>> h = channel.send("alice", "bob", "activations", {"h": torch.tensor([1.0, -3.0, 0.0, 2.0])})
    >>> channel.send("bob", "alice", "gradients", {"g": torch.ones(4)})
    {'g': tensor([0., 1., 0., 0.])}
    """

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Carry a message as `Channel` does; both ends of its answer then know its places."""
        arrival = super().cross(link, tree)
        for kind in [kind for kind, codec in self.codecs.items() if _answering(codec, link.kind)]:
            masks = self.links.codecs_of(link).receiving.masks(arrival.message)
            for codec in self.links.codecs_of(Link(link.receiver, link.sender, kind)):
                for stage in _answering(codec, link.kind):
                    stage.places = list(masks.values())
        return arrival


def _answering(codec: Codec, kind: str) -> list[SameMask]:
    """The stages of a codec that answer messages of this kind."""
    return [part for part in walk(codec) if isinstance(part, SameMask) and part.answers == kind]
