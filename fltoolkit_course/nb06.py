"""The answers of notebook 06. Try to answer before you look."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fltoolkit_course.comparison import near
from fltoolkit_course.guesses import ANY, AT_LEAST_0, Between
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "06",
    "Top-k and error feedback",
    guesses={
        "The residual after five rounds?": ANY,
        "Part of the gap that is closed?": ANY,
        "Bits for each place of 1 %?": AT_LEAST_0,
        "Percentage points that the bug costs?": Between(-100, 100),
    },
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict

ANN, BEN = torch.tensor([4.0, 3.0, 0.0]), torch.tensor([0.0, -2.0, 8.0])


# Each law takes what makes the reader's class, called with k, and says whether the law holds.


def signs_survive(make: Callable[..., Any]) -> bool:
    x = torch.tensor([1.0, -5.0, 2.0, 3.0])
    return torch.equal(make(k=2).client("ann", x), torch.tensor([0.0, -5.0, 0.0, 3.0]))


def sends_k(make: Callable[..., Any]) -> bool:
    x = torch.tensor([1.0, 5.0, 2.0, 3.0])
    return all(int((make(k=k).client("ann", x) != 0).sum()) == k for k in (1, 2, 3))


def accounts_balance(make: Callable[..., Any]) -> bool:
    """Also if the clients come in another order, and the updates stay as they were."""
    both, got = make(k=1), {"ann": torch.zeros(3), "ben": torch.zeros(3)}
    given = {"ann": ANN.clone(), "ben": BEN.clone()}
    for order in (("ann", "ben"), ("ben", "ann"), ("ann", "ben")):
        for name in order:
            got[name] = got[name] + both.client(name, given[name])
    sums = {"ann": 3 * ANN, "ben": 3 * BEN}
    return all(
        torch.equal(sums[name] - got[name], torch.as_tensor(both.owes(name))) for name in got
    )


def residual_is_sent(make: Callable[..., Any]) -> bool:
    """3 waits in the first round; in the second 3 + 3 is the largest."""
    client = make(k=1)
    client.client("ann", ANN.clone())
    second: Tensor = client.client("ann", ANN.clone())
    return abs(float(second[1])) == 6


def four_of_ten(make: Callable[..., Any]) -> bool:
    messages = 4 * [torch.tensor([-2.0, 0.0])] + 6 * [torch.tensor([0.0, 3.0])]
    return torch.equal(make(k=1).server(messages), torch.tensor([-2.0, 3.0]))


def silence_is_zero(make: Callable[..., Any]) -> bool:
    mean = make(k=1).server([torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0])])
    return torch.equal(mean, torch.tensor([0.0, 2.0]))


LAWS = {
    "signs (take the places from abs(), the values from the tensor)": signs_survive,
    "k values in a message, no more and no fewer": sends_k,
    "an account for each client (whose residual is it? a dict has names)": accounts_balance,
    "the residual as a part of the next message": residual_is_sent,
    "four of ten (a negative value was sent, too)": four_of_ten,
    "0 where nobody sends (what is 0 / max(0, 1)?)": silence_is_zero,
}


@notebook.answer("all laws hold")
def all_laws_hold() -> Answer:
    def read(answer: Any) -> list[str]:
        if not isinstance(answer, type):
            raise ValueError("Give the class itself: my_answer = Mine.")
        broken = []
        for words, law in LAWS.items():
            try:
                holds = law(answer)
            except Exception as error:
                raise ValueError(f"It raises {type(error).__name__}: {error}") from error
            broken += [] if holds else [words]
        return broken

    return Answer([], read=read)


@notebook.answer("bits a place")
def bits_a_place(*, p: float) -> Answer:
    """Golomb's code for distances, as Sattler et al. 2019 give it (arXiv 1903.02891)."""
    phi = (1 + 5**0.5) / 2
    fixed = 1 + math.floor(math.log2(math.log(phi - 1) / math.log(1 - p)))
    variable = 1 / (1 - (1 - p) ** 2**fixed)
    return Answer(
        fixed + variable,
        (lambda a: a == fixed, "That is b*: the fixed part of each code. Add the other one."),
        (near(variable, 0.1), "That is the variable part. Add b*."),
        tolerance=0.01,
    )


@notebook.answer("what is owed")
def what_is_owed() -> Answer:
    return Answer(
        [0, 3, 0],
        (lambda a: list(a) == [0, 1, 0], "That is one round's. What was owed is still owed."),
        (lambda a: list(a) == [0, 0, 0], "When was the second weight sent?"),
    )
