"""Meter and codecs for a job of NVFlare that you have: two filters at each end.

Parameters of a job are whole models in both directions, so a codec has no memory. Tried with 2.9.
"""

from typing import Any

import torch

from fltoolkit.channel import Channel
from fltoolkit.codecs import Codec, Entropy, Identity, Pipeline, Quantize
from fltoolkit.links import Link
from fltoolkit_engines._framed import framed, unframed

try:
    from nvflare.apis.dxo import DXO, DataKind
    from nvflare.apis.dxo_filter import DXOFilter
    from nvflare.apis.event_type import EventType
except ModuleNotFoundError:  # so that its documentation can be made
    DXOFilter = object

__all__ = ["Frames", "meter"]


class Frames(DXOFilter):
    """Makes a message of parameters that leave (``out``), quantized with ``bits``; or the reverse.

    A filter where they leave writes its sums into the log when the run ends.
    """

    def __init__(self, out: bool, bits: int | None = None):
        super().__init__([DataKind.WEIGHTS, DataKind.WEIGHT_DIFF], None)
        self.out, self.bits = out, bits
        self.channel = Channel({"model": self.codec()})

    def codec(self) -> Codec:
        """The codec of both ends; a subclass may return another one without a memory."""
        return Identity() if self.bits is None else Pipeline(Quantize(self.bits), Entropy())

    def process_dxo(self, dxo: Any, shareable: Any, fl_ctx: Any) -> Any:
        """The parameters as one array of bytes, or the arrays that such bytes hold."""
        tree = {name: torch.as_tensor(value) for name, value in dxo.data.items()}
        change = framed if self.out else unframed
        tree = change(self.channel, Link("one end", "the other", "model"), tree)
        return DXO(dxo.data_kind, {name: value.numpy() for name, value in tree.items()}, dxo.meta)

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Write the sums into the log."""
        if event_type == EventType.END_RUN and self.out:
            sent, who = self.channel.transfers, fl_ctx.get_identity_name()
            nbytes = f"{self.channel.nbytes():,} bytes for {sum(t.nbytes_dense for t in sent):,}"
            self.logger.info(f"fltoolkit: {who} sent {len(sent)} messages, {nbytes} of arrays")


def meter(recipe: Any, bits: int | None = None) -> None:
    """Add the four filters to the training of a recipe."""
    recipe.add_server_output_filter(Frames(True, bits), tasks=["train"])
    recipe.add_client_input_filter(Frames(False, bits), tasks=["train"])
    recipe.add_client_output_filter(Frames(True, bits), tasks=["train"])
    recipe.add_server_input_filter(Frames(False, bits), tasks=["train"])
