"""The answers of notebook 02b. Try to answer before you look."""

import torch

from fltoolkit import cost
from fltoolkit.models import splitnn_mlp
from fltoolkit.wire import pack
from fltoolkit_course.guesses import AT_LEAST_0, PERCENT
from fltoolkit_course.notebook import Answer, Notebook

notebook = Notebook(
    "02b",
    "Other cuts",
    guesses={
        "Bytes of the U-shape, in multiples of the vanilla split?": AT_LEAST_0,
        "ROC area, the best of the three alone?": PERCENT,
        "By the formula, splitting pays from how many clients on?": AT_LEAST_0,
    },
)
card, check, predict = notebook.card, notebook.check, notebook.predict


@notebook.answer("crossover with the cut at 2")
def narrow_cut(*, num_features: int, num_samples: int, num_rounds: int) -> Answer:
    def crossover(cut: int) -> int | None:
        model = cost.measure(splitnn_mlp(num_features, seed=0), (num_features,), cut=cut)
        how = {"num_samples": num_samples, "epochs": num_rounds, "rounds": num_rounds}
        return cost.crossover_clients(model, **how, label_nbytes=8)

    wide, narrow = crossover(4), crossover(2)
    return Answer(narrow, (wide, "That is the old cut: measure the model again, with cut=2."))


@notebook.answer("bytes of a step with the thin tail")
def thin_tail() -> Answer:
    values = 64 * (128 + 10) * 4
    sent = sum(len(pack({"h": torch.zeros(64, width)})) for width in (128, 10))
    return Answer(
        2 * sent,
        (lambda a: a == 2 * values, "The values are right. Add the headers: send it."),
        (lambda a: a in (values, sent), "Each cut sends in both directions, up and down."),
    )
