"""Meter and codecs for a job of NVFlare that you have: two filters at each end.

Parameters of a job are whole models in both directions, so a codec has no memory. Tried with 2.9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fltoolkit.codecs import Codec, Entropy, Identity, Pipeline, Quantize
from fltoolkit.trees import dense_nbytes

try:
    from nvflare.apis.dxo import DXO, DataKind
    from nvflare.apis.dxo_filter import DXOFilter
    from nvflare.apis.event_type import EventType
except ModuleNotFoundError:  # so that its documentation can be made
    DXOFilter = object

__all__ = ["Frames", "meter"]

FRAME = "fltoolkit"  # the one entry of a model that travels as a message


class Frames(DXOFilter):
    """Makes a message of parameters that leave (``out``), quantized with ``bits``; or the reverse.

    A filter where they leave counts, and writes its sums into the log when the run ends.
    """

    def __init__(self, out: bool, bits: int | None = None):
        if DXOFilter is object:
            raise ModuleNotFoundError("NVFlare is missing: pip install nvflare")
        super().__init__([DataKind.WEIGHTS, DataKind.WEIGHT_DIFF], None)
        self.out, self.bits = out, bits
        self.nbytes: list[tuple[int, int]] = []  # of each message, and of its values in float32

    def codec(self) -> Codec:
        """The codec of both ends; a subclass may return another one without a memory."""
        return Identity() if self.bits is None else Pipeline(Quantize(self.bits), Entropy())

    def process_dxo(self, dxo: DXO, shareable: Any, fl_ctx: Any) -> DXO:
        """The parameters as one array of bytes, or the arrays that such bytes hold."""
        if self.out:
            tree = {name: torch.as_tensor(value) for name, value in dxo.data.items()}
            message = self.codec().encode(tree)
            self.nbytes.append((len(message), dense_nbytes(tree)))
            return DXO(dxo.data_kind, {FRAME: np.frombuffer(message, np.uint8)}, dxo.meta)
        if dxo.data.keys() != {FRAME}:
            raise ValueError(f"parameters came unmetered, as {[*dxo.data][:3]}: call meter(recipe)")
        tree = self.codec().decode(dxo.data[FRAME].tobytes())
        return DXO(dxo.data_kind, {name: value.numpy() for name, value in tree.items()}, dxo.meta)

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Write the sums into the log."""
        if event_type == EventType.END_RUN and self.nbytes:
            sent, dense = map(sum, zip(*self.nbytes, strict=True))
            who, count = fl_ctx.get_identity_name(), len(self.nbytes)
            self.logger.info(f"fltoolkit: {who} sent {count} messages, {sent:,} of {dense:,} bytes")


def meter(recipe: Any, bits: int | None = None) -> None:
    """Add the four filters to the training of a recipe."""
    recipe.add_server_output_filter(Frames(True, bits), tasks=["train"])
    recipe.add_client_input_filter(Frames(False, bits), tasks=["train"])
    recipe.add_client_output_filter(Frames(True, bits), tasks=["train"])
    recipe.add_server_input_filter(Frames(False, bits), tasks=["train"])
