import pytest
import torch
from course.answers import NAN, Case
from torch import nn

from fltoolkit import Channel
from fltoolkit.federated import Local, fedavg

PARAMETERS = 64 * 64 + 64 + 64 * 10 + 10
ONE_ROUND = 771_520
VALUES = 20 * 2 * PARAMETERS * 4  # without headers

CASES = {
    "the server's new weight": Case(right=[2], wrong=[3, 4, 80, 2.5, NAN, "two"]),
    "staleness": Case(facts={"joined": 2}, right=[2], wrong=[1, 3, 2.5, 0, NAN]),
    "images a client": Case(
        facts={"num_parameters": PARAMETERS, "cut_width": 64},
        right=[76],
        wrong=[75, 75.2, PARAMETERS / 64, 151, 4810, 4811, NAN],
    ),
    "bytes of 20 rounds of one": Case(
        facts={"one_round": ONE_ROUND, "num_parameters": PARAMETERS},
        right=[ONE_ROUND],
        wrong=[VALUES, VALUES // 2, ONE_ROUND // 2, 20 * ONE_ROUND, ONE_ROUND // 20, NAN],
    ),
}


@pytest.mark.later
def test_twenty_rounds_of_one_client_send_what_one_round_of_twenty_sends() -> None:
    x, y = torch.rand(4, 64), torch.zeros(4, dtype=torch.long)
    clients = {f"client_{k}": (x, y) for k in range(20)}

    def nbytes(rounds: int, cohort: int) -> int:
        layers = nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10), nn.LogSoftmax(1)
        model, channel, local = nn.Sequential(*layers), Channel(), Local(None, lr=0.1, steps=1)
        list(fedavg(model, clients, channel, rounds=rounds, cohort=cohort, local=local))
        return channel.nbytes()

    assert nbytes(20, 1) == nbytes(1, 20) == ONE_ROUND
