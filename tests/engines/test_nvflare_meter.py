"""The filters for NVFlare, over its own messages; examples/nvflare_meter has a job of it."""

from unittest.mock import Mock

import pytest
import torch

pytest.importorskip("nvflare", reason="NVFlare is not installed: pip install nvflare")

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext

from fltoolkit.codecs import Entropy, Pipeline, Quantize
from fltoolkit.testing import normal
from fltoolkit.wire import pack
from fltoolkit_engines._framed import FRAME
from fltoolkit_engines.nvflare_meter import Frames, meter

TREE = {"weight": normal(30, 20), "bias": normal(30)}


def sent(*filters):
    """What arrives of these parameters, after the filters of both ends."""
    arrays = {name: value.numpy() for name, value in TREE.items()}
    message = DXO(DataKind.WEIGHTS, arrays, {"round": 3}).to_shareable()
    for each in filters:
        message = each.process(message, FLContext())
    return from_shareable(message)


def test_without_bits_values_arrive_as_they_left_and_are_counted():
    out, there = Frames(True), Frames(False)
    arrived = sent(out, there)
    assert arrived.meta["round"] == 3
    assert all(torch.equal(torch.as_tensor(arrived.data[name]), t) for name, t in TREE.items())
    assert [t[-2:] for t in out.channel.transfers] == [(len(pack(TREE)), 4 * 630)]
    for each in (out, there):
        each.logger = Mock()
        each.handle_event(EventType.END_RUN, FLContext())
    words = f"sent 1 messages, {len(pack(TREE)):,} bytes for 2,520 of arrays"
    assert words in str(out.logger.info.call_args)
    assert not there.logger.info.called


def test_with_bits_they_are_those_of_the_codec():
    codec, out = Pipeline(Quantize(8), Entropy()), Frames(True, 8)
    message = codec.encode(TREE)
    assert sent(out).data[FRAME].tobytes() == message
    assert [t[-2:] for t in out.channel.transfers] == [(len(message), 4 * 630)]
    assert len(message) < 4 * 630 / 3
    arrived, expected = sent(Frames(True, 8), Frames(False, 8)).data, codec.decode(message)
    assert all(torch.equal(torch.as_tensor(arrived[name]), t) for name, t in expected.items())


def test_parameters_that_came_without_a_meter_are_named():
    with pytest.raises(ValueError, match=r"\['weight', 'bias'\] came unmetered"):
        sent(Frames(False))


def test_all_four_ways_get_their_filter():
    class Recipe:
        def __init__(self):
            self.added = []

        def __getattr__(self, name):
            return lambda frames, tasks: self.added.append((name, frames.out, frames.bits, tasks))

    meter(recipe := Recipe(), 8)
    assert recipe.added == [
        ("add_server_output_filter", True, 8, ["train"]),
        ("add_client_input_filter", False, 8, ["train"]),
        ("add_client_output_filter", True, 8, ["train"]),
        ("add_server_input_filter", False, 8, ["train"]),
    ]
