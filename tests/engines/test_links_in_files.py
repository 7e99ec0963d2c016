"""Links whose memory is kept in files: the same bytes and trees as in memory."""

import pytest
import torch

from benchmarks.links_in_files import LinksInFiles
from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.testing import normal


def channel_of(codec, max_links, folder):
    channel = Channel()
    channel.links = LinksInFiles({"update": codec}, max_links=max_links, folder=folder)
    return channel


@pytest.mark.later
def test_thousands_of_clients_with_a_few_in_memory(tmp_path):
    """Residuals of all but the last links wait in files; the bytes and trees are the same."""
    codec = ErrorFeedback(Pipeline(TopK(0.1), Quantize(8, stochastic=True)))
    order = [k * 7 % 30 for k in range(90)]
    with_files = channel_of(codec, 4, tmp_path / "links")
    in_memory = Channel({"update": codec})
    for step, client in enumerate(order):
        tree = {"w": normal(40, seed=step)}
        sent = [c.send(f"c{client}", "server", "update", tree) for c in (with_files, in_memory)]
        assert torch.equal(sent[0]["w"], sent[1]["w"])
        assert len(with_files.links.ends) <= 4
    assert with_files.transfers == in_memory.transfers
    assert len(list((tmp_path / "links").glob("*/*.pt"))) >= 26
    resumed = channel_of(codec, 4, tmp_path / "others")
    torch.save(with_files.state_dict(), tmp_path / "channel.pt")
    resumed.load_state_dict(torch.load(tmp_path / "channel.pt", weights_only=True))
    assert len(resumed.links.ends) == 4
    for client in range(30):
        tree = {"w": normal(40, seed=client)}
        sent = [c.send(f"c{client}", "server", "update", tree) for c in (resumed, in_memory)]
        assert torch.equal(sent[0]["w"], sent[1]["w"])
    with pytest.raises(ValueError, match="1 or more links stay in memory"):
        channel_of(codec, 0, tmp_path)


@pytest.mark.parametrize("keep", [False, True])
def test_a_changed_codec_reaches_links_in_files(tmp_path, keep):
    codecs = [ErrorFeedback(Pipeline(Quantize(bits, stochastic=True))) for bits in (2, 3)]
    channels = Channel({"update": codecs[0]}), channel_of(codecs[0], 1, tmp_path)
    sent = []
    for channel in channels:
        for change in (False, True):
            if change:
                channel.change_codec("update", codecs[1], keep=keep)
            sent.append([channel.send(n, "s", "update", {"w": normal(40)})["w"] for n in "abc"])
    for one, other in zip(*(torch.stack([*x, *y]) for x, y in (sent[:2], sent[2:])), strict=True):
        assert torch.equal(one, other)
