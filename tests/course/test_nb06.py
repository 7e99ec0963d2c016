from typing import Any

import pytest
import torch
from course.answers import NAN, Case, Printed
from torch import Tensor

from fltoolkit_course.nb06 import LAWS, notebook

GOLOMB = 6 + 1 / (1 - 0.99**64)


class Right:
    def __init__(self, k: int):
        self.k, self.residual = k, {}

    def client(self, name: str, update: Tensor) -> Tensor:
        wanted = update + self.residual.get(name, 0)
        places = wanted.abs().topk(self.k).indices
        sent = torch.zeros_like(update).scatter(0, places, wanted[places])
        self.residual[name] = wanted - sent
        return sent

    def owes(self, name: str) -> Tensor:
        return self.residual[name]

    def server(self, messages: list[Tensor]) -> Tensor:
        stacked = torch.stack(messages)
        return stacked.sum(0) / (stacked != 0).sum(0).clamp(min=1)


class ByMask(Right):
    def client(self, name: str, update: Tensor) -> Tensor:
        wanted = update + self.residual.setdefault(name, torch.zeros_like(update))
        sent = wanted * (wanted.abs() >= wanted.abs().sort(descending=True).values[self.k - 1])
        self.residual[name] = wanted - sent
        return sent


class LostSign(Right):
    def client(self, name: str, update: Tensor) -> Tensor:
        wanted = update + self.residual.get(name, 0)
        values, places = wanted.abs().topk(self.k)
        sent = torch.zeros_like(update).scatter(0, places, values)
        self.residual[name] = wanted - sent
        return sent


class IgnoresK(Right):
    def client(self, name: str, update: Tensor) -> Tensor:
        self.residual[name] = torch.zeros_like(update)
        return update.clone()


class NeverSendsItsResidual(Right):
    """Its account balances: what it owes grows for ever."""

    def client(self, name: str, update: Tensor) -> Tensor:
        places = update.abs().topk(self.k).indices
        sent = torch.zeros_like(update).scatter(0, places, update[places])
        self.residual[name] = self.residual.get(name, 0) + update - sent
        return sent


class OneForAll(Right):
    def client(self, name: str, update: Tensor) -> Tensor:
        return super().client("everybody", update)

    def owes(self, name: str) -> Tensor:
        return self.residual["everybody"]


class ByZero(Right):
    def server(self, messages: list[Tensor]) -> Tensor:
        stacked = torch.stack(messages)
        return stacked.sum(0) / (stacked != 0).sum(0)


class PlainMean(Right):
    def server(self, messages: list[Tensor]) -> Tensor:
        return torch.stack(messages).mean(0)


class Raises(Right):
    def client(self, name: str, update: Tensor) -> Tensor:
        raise KeyError(name)


MISTAKES = {  # and the words that the reader gets
    LostSign: "signs",
    IgnoresK: "k values",
    NeverSendsItsResidual: "next message",
    OneForAll: "an account",
    ByZero: "0 where nobody sends",
    PlainMean: "four of ten",
    Raises: "KeyError: 'ann'",
}
CASES = {
    "all laws hold": Case(right=[Right, ByMask], wrong=[*MISTAKES, Right(k=1), "Mine", []]),
    "bits a place": Case(
        facts={"p": 0.01}, right=[GOLOMB], wrong=[6, GOLOMB - 6, 8.07, 8, 32, NAN]
    ),
    "what is owed": Case(
        right=[[0, 3, 0], (0, 3, 0), torch.tensor([0.0, 3.0, 0.0]), [0.0, 3.0, 0.0]],
        wrong=[[0, 1, 0], [0, 0, 0], [12, 3, 0], 3, [0, 3], [0, NAN, 0]],
    ),
}


@pytest.mark.parametrize(("program", "words"), MISTAKES.items())
def test_each_mistake_is_named(program: Any, words: str, capsys: Printed) -> None:
    assert not notebook.check("all laws hold", program)
    assert words in capsys.readouterr().out


def test_each_law_is_broken_by_some_program() -> None:
    for words, law in LAWS.items():
        assert law(Right), words
        assert not all(law(program) for program in MISTAKES if program is not Raises), words
