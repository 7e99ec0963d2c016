"""Codecs that follow the run: fractions by a budget, memory that stays."""

import pytest
import torch
from torch import nn

from experiments.replications.adaptive import ByteBudget
from fltoolkit.channel import Channel
from fltoolkit.codecs import ErrorFeedback, Pipeline, Quantize, TopK
from fltoolkit.federated import Arrivals, Local, LogNormal, Server, fedavg
from fltoolkit.models import seeded
from fltoolkit_research.codecs import ContextEntropy

HOW = {"cohort": 4, "local": Local(batch_size=10, epochs=1, lr=0.1)}
SOME_ARE_LATE = Arrivals(wait_for=2, clock=LogNormal(1.0))


def sparse(fraction):
    return ErrorFeedback(Pipeline(TopK(fraction), Quantize(8, stochastic=True), ContextEntropy()))


@pytest.mark.slow
@pytest.mark.parametrize(("first", "arrivals"), [(0.9, Arrivals()), (0.002, SOME_ARE_LATE)])
def test_a_budget_lands_within_two_percent(first, arrivals):
    """Begun far below and far above, with stragglers, and with both directions counted."""
    budget, rounds = 225_000, 20
    channel = Channel({"update": sparse(first), "model": Pipeline(Quantize(8), ContextEntropy())})
    rule = ByteBudget(sparse, budget, rounds, first)
    server = Server(tune=rule, arrivals=arrivals)
    with seeded(0):
        layers = nn.Linear(30, 60), nn.Tanh(), nn.Linear(60, 3), nn.LogSoftmax(dim=1)
    g = torch.Generator().manual_seed(1)
    x, way = torch.randn(400, 30, generator=g), torch.randn(30, 3, generator=g)
    people = {f"c{k}": (x[k::8], (x @ way).argmax(dim=1)[k::8]) for k in range(8)}
    model = nn.Sequential(*layers)
    records = list(fedavg(model, people, channel, rounds=rounds, server=server, **HOW))
    print(f"from {first}: {records[-1]['nbytes']:,} of {budget:,}, fraction {rule.fraction:.4f}")
    assert abs(records[-1]["nbytes"] - budget) <= 0.02 * budget
    assert records[-1]["nbytes"] == channel.nbytes()


def test_retuning_keeps_residuals():
    """Inputs = sent + residual over three fractions, as in one run; and the ledger goes on."""
    channel, total, came = Channel({"update": sparse(0.5)}), 0.0, 0.0
    g = torch.Generator().manual_seed(0)
    for fraction in (0.5, 0.1, 0.02):
        channel.change_codec("update", sparse(fraction), keep=True)
        for _ in range(3):
            tree = {"w": torch.randn(400, generator=g)}
            total = total + tree["w"]
            received = channel.send("a", "b", "update", tree)["w"]
            assert received.count_nonzero() <= round(fraction * 400)
            came = came + received
    link = next(link for link in channel.state_dict()["links"] if link[0] == "a")
    torch.testing.assert_close(link[3]["residual"]["w"], total - came, rtol=0, atol=1e-5)
    assert len(channel.transfers) == 9
    with pytest.raises(ValueError, match="cannot take over what"):  # its memory does not fit
        channel.change_codec("update", Pipeline(TopK(0.1)), keep=True)
    assert channel.codecs["update"] == sparse(0.02)
