"""Metrics: right by hand, the same in any batches; errors that say what to do; no trace is left."""

import copy
import math
from functools import partial
from itertools import product

import pandas as pd
import pytest
import torch
from core.split.networks import party, small_net, toy_data
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fltoolkit import Party, evaluate
from fltoolkit.metrics import ACCURACY, Metric
from fltoolkit.testing import normal
from fltoolkit_research.metrics import MEAN_SQUARED_ERROR, PERPLEXITY


def f1_score(*arguments, **settings):
    """Of torchmetrics, which takes a second and a half to import: not while tests are collected."""
    import torchmetrics

    return torchmetrics.F1Score(*arguments, **settings)


def whole(loss_fn):
    """A network that gives back what it gets: outputs are the inputs."""
    return [Party("all", nn.Identity(), loss_fn=loss_fn)]


LOGITS, ONES = normal(60, 1), (normal(60, 1, seed=1) > 0).float()
SCORES, CLASSES = normal(90, 5), torch.arange(90) % 5
TEXT, LETTERS = normal(12, 7, 9), torch.arange(108).reshape(12, 9) % 7


@pytest.mark.parametrize(("outputs", "y"), [(SCORES, CLASSES), (TEXT, LETTERS)])
def test_accuracy_of_classes_and_of_each_letter_of_a_text(outputs, y):
    found = evaluate(whole(nn.CrossEntropyLoss()), outputs, y)
    assert found["accuracy"] == float((outputs.argmax(1) == y).double().mean())


@pytest.mark.parametrize(
    ("loss_fn", "outputs", "targets", "words"),
    [
        (nn.MSELoss(), LOGITS, LOGITS, "measured numbers need another one"),
        (lambda o, y: o.mean() ** 2, SCORES, CLASSES[:, None], r"y\.squeeze\(-1\)"),
        (lambda o, y: o.mean() ** 2, SCORES[:, :1], CLASSES, "would be broadcast"),
        (lambda o, y: o.mean() ** 2, LOGITS, ONES.long(), "one logit each"),
        (lambda o, y: o.mean() ** 2, TEXT, LETTERS[:, 0], "into these shapes"),
        (nn.CrossEntropyLoss(reduction="none"), SCORES, CLASSES, 'Leave out reduction="none"'),
        (nn.MSELoss(), LOGITS, ONES[:, 0], "would be broadcast"),
    ],
)
def test_what_has_no_clear_meaning_is_an_error_that_says_what_to_do(
    loss_fn, outputs, targets, words
):
    with pytest.raises(ValueError, match=words):
        evaluate(whole(loss_fn), outputs, targets)


@pytest.mark.parametrize("metric", [ACCURACY, PERPLEXITY, Metric("test_loss", None)])
def test_batches_add_up_also_where_some_targets_do_not_count(metric):
    y = LETTERS.clone()
    y[:3, 2:] = -100
    y[11] = -100  # a batch of its own, of which nothing counts
    one, many = (
        evaluate(whole(nn.CrossEntropyLoss()), TEXT, y, metric=metric, batch_size=b)
        for b in (12, 1)
    )
    assert many == pytest.approx(one)
    assert one["test_loss"] == pytest.approx(float(nn.CrossEntropyLoss()(TEXT, y)))


def test_a_metric_of_ones_own():
    mine = Metric("largest", lambda output, y: (float(output.max()), 1), higher_is_better=False)
    found = evaluate(whole(nn.CrossEntropyLoss()), SCORES, CLASSES, metric=mine)
    assert found["largest"] == float(SCORES.max())
    assert (mine.reaches(1.0, 1.0), mine.reaches(1.1, 1.0)) == (True, False)
    broken = Metric("broken", lambda output, y: (math.nan, 1))
    with pytest.raises(FloatingPointError, match="broken is nan"):
        evaluate(whole(nn.CrossEntropyLoss()), SCORES, CLASSES, metric=broken)


def test_a_metric_of_the_whole_set_does_not_depend_on_batches():
    """The largest output is one of the whole set, and so is the number of its targets."""
    ranked = Metric("ranked", None, of_all=lambda outputs, y: outputs.max() + len(y))
    for batch_size in (90, 7):
        found = evaluate(
            whole(nn.CrossEntropyLoss()), SCORES, CLASSES, metric=ranked, batch_size=batch_size
        )
        assert found["ranked"] == float(SCORES.max() + 90)


def partial_loss(**settings):
    return partial(nn.functional.cross_entropy, **settings)


@pytest.mark.parametrize("make", [nn.CrossEntropyLoss, partial_loss])
@pytest.mark.parametrize("ignored", [-100, 255, 0])
def test_what_the_loss_ignores_no_metric_counts(make, ignored):
    """A network that is right wherever it counts, and 60 of 100 targets that do not count."""
    y = torch.arange(100) % 3 + 1
    outputs = nn.functional.one_hot(y, 4).float()
    outputs[:60] = torch.eye(4)[(y[:60] + 1) % 4]  # wrong, where it does not count
    y[:60] = ignored
    f1 = Metric("f1", None, of_all=f1_score("multiclass", num_classes=4))
    for metric, batch_size in product((ACCURACY, f1), (7, 100)):
        loss_fn = make(ignore_index=ignored)
        found = evaluate(whole(loss_fn), outputs, y, metric=metric, batch_size=batch_size)
        assert found[metric.name] == 1.0


WEIGHTS = torch.tensor([1.0, 20.0, 3.0, 0.5, 7.0])


@pytest.mark.later
@pytest.mark.parametrize(
    "loss_fn",
    [
        nn.CrossEntropyLoss(WEIGHTS),
        nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1),
        nn.NLLLoss(WEIGHTS, ignore_index=2),
        partial_loss(weight=WEIGHTS),
        lambda output, y: nn.functional.cross_entropy(output, y, weight=WEIGHTS),
    ],
    ids=["module", "smoothed", "ignoring", "partial", "own"],
)
def test_the_loss_of_weighted_classes_does_not_depend_on_the_batches(loss_fn):
    y = CLASSES.sort().values
    whole_set = float(loss_fn(SCORES, y))
    for batch_size in (1, 13, 90):
        found = evaluate(whole(loss_fn), SCORES, y, batch_size=batch_size)
        assert found["test_loss"] == pytest.approx(whole_set, rel=1e-5)


def test_a_sum_of_losses_is_divided_by_the_targets_once():
    expected = float(nn.functional.cross_entropy(SCORES, CLASSES))
    for batch_size in (7, 90):
        found = evaluate(
            whole(nn.CrossEntropyLoss(reduction="sum")), SCORES, CLASSES, batch_size=batch_size
        )
        assert found["test_loss"] == pytest.approx(expected)


def test_a_metric_of_many_classes_is_refused_for_one_logit():
    f1 = Metric("f1", None, of_all=f1_score("multiclass", num_classes=2))
    with pytest.raises(ValueError, match="needs a binary metric"):
        evaluate(whole(nn.BCEWithLogitsLoss()), LOGITS, ONES, metric=f1)
    f1 = Metric("f1", None, of_all=f1_score("binary"))
    assert evaluate(whole(nn.BCEWithLogitsLoss()), ONES - 0.5, ONES, metric=f1)["f1"] == 1.0


def test_what_people_have_is_evaluated_alike():
    """Tensors, arrays, tables and loaders, of a party or of a plain module."""
    expected = evaluate(whole(nn.CrossEntropyLoss()), SCORES, CLASSES)
    party = whole(nn.CrossEntropyLoss())[0]
    table, column = pd.DataFrame(SCORES.numpy()), pd.Series(CLASSES.numpy(), index=range(90, 0, -1))
    loader = DataLoader(TensorDataset(SCORES, CLASSES), 7)
    for x, y in ((SCORES.numpy(), CLASSES.numpy()), (table, column), (loader, None)):
        assert evaluate(party, x, y) == pytest.approx(expected)
        assert evaluate(nn.Identity(), x, y) == {"accuracy": expected["accuracy"]}
    with pytest.raises(ValueError, match="y is missing"):
        evaluate(party, SCORES)


def test_perplexity_by_hand():
    found = evaluate(whole(nn.CrossEntropyLoss()), TEXT * 0, LETTERS, metric=PERPLEXITY)
    assert found["perplexity"] == pytest.approx(7)


def test_errors_of_numbers():
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.5]])
    found = evaluate(whole(nn.MSELoss()), x, y, metric=MEAN_SQUARED_ERROR)
    assert found["mean_squared_error"] == 2.125
    with pytest.raises(ValueError, match="equal shapes"):
        MEAN_SQUARED_ERROR.measure(x, y[:, 0])


def test_evaluation_leaves_no_trace():
    model = small_net()
    parts = [party("alice", model[:4]), party("bob", model[4:], nn.NLLLoss())]
    x, y = toy_data(2500)
    model[1].eval()  # a mode set by hand must come back too
    before = copy.deepcopy(model.state_dict())
    result = evaluate(parts, x, y)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert [m.training for m in model] == [True, False] + [True] * 8
    model.eval()
    whole = nn.functional.nll_loss(model(x), y)
    assert result["test_loss"] == pytest.approx(whole.item(), rel=1e-5)
    assert result["accuracy"] == pytest.approx((model(x).argmax(1) == y).double().mean().item())
