"""Metrics: right by hand, the same in any batches, and errors that say what to do."""

import math

import pytest
import torch
from torch import nn

from fltoolkit import Party, evaluate
from fltoolkit.metrics import (
    ACCURACY,
    AUROC,
    BALANCED_ACCURACY,
    BINARY_ACCURACY,
    BITS_PER_CHARACTER,
    F1,
    MEAN_ABSOLUTE_ERROR,
    MEAN_SQUARED_ERROR,
    PERPLEXITY,
    TEST_LOSS,
    Metric,
)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(loss_fn):
    """A network that gives back what it gets: outputs are the inputs."""
    return [Party("all", nn.Identity(), loss_fn=loss_fn)]


LOGITS, ONES = drawn(600, 1), (drawn(600, 1, seed=1) > 0).float()
SCORES, CLASSES = drawn(90, 5), torch.arange(90) % 5
TEXT, LETTERS = drawn(12, 7, 9), torch.arange(108).reshape(12, 9) % 7


def test_accuracy_of_classes():
    found = evaluate(whole(nn.CrossEntropyLoss()), SCORES, CLASSES)
    assert found["accuracy"] == float((SCORES.argmax(1) == CLASSES).double().mean())


def test_accuracy_of_each_letter_of_a_text():
    found = evaluate(whole(nn.CrossEntropyLoss()), TEXT, LETTERS)
    assert found["accuracy"] == pytest.approx(float((TEXT.argmax(1) == LETTERS).float().mean()))
    assert 0 <= found["accuracy"] <= 1


def test_accuracy_of_one_logit_is_binary():
    found = evaluate(whole(nn.BCEWithLogitsLoss()), LOGITS, ONES, metric=BINARY_ACCURACY)
    assert found["binary_accuracy"] == float(((LOGITS > 0) == (ONES > 0)).double().mean())
    flat = evaluate(whole(nn.BCEWithLogitsLoss()), LOGITS[:, 0], ONES[:, 0], metric=BINARY_ACCURACY)
    assert flat["binary_accuracy"] == found["binary_accuracy"]
    several = ((ones := ONES.reshape(200, 3)), LOGITS.reshape(200, 3))
    found = evaluate(whole(nn.BCEWithLogitsLoss()), several[1], ones, metric=BINARY_ACCURACY)
    assert found["binary_accuracy"] == flat["binary_accuracy"]
    with pytest.raises(ValueError, match="0 or 1"):
        BINARY_ACCURACY.measure(LOGITS, ONES + 1)


@pytest.mark.parametrize(
    ("loss_fn", "outputs", "targets", "words"),
    [
        (nn.BCEWithLogitsLoss(), LOGITS, ONES, "take metric=BINARY_ACCURACY"),
        (nn.MSELoss(), LOGITS, LOGITS, "metric=MEAN_SQUARED_ERROR"),
        (lambda o, y: o.mean() ** 2, SCORES, CLASSES[:, None], r"y\.squeeze\(-1\)"),
        (lambda o, y: o.mean() ** 2, SCORES[:, :1], CLASSES, "would be broadcast"),
        (lambda o, y: o.mean() ** 2, LOGITS, ONES.long(), "one logit per prediction"),
        (lambda o, y: o.mean() ** 2, TEXT, LETTERS[:, 0], "into these shapes"),
        (nn.CrossEntropyLoss(reduction="none"), SCORES, CLASSES, 'Leave out reduction="none"'),
        (nn.MSELoss(), LOGITS, ONES[:, 0], "would be broadcast"),
        (nn.MSELoss(), LOGITS[:, 0], ONES, "would be broadcast"),
    ],
)
def test_what_has_no_clear_meaning_is_an_error_that_says_what_to_do(
    loss_fn, outputs, targets, words
):
    with pytest.raises(ValueError, match=words):
        evaluate(whole(loss_fn), outputs, targets)


def test_a_loss_that_sums_up_is_told_as_a_mean():
    for given, by_hand in (
        (nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss()),
        (lambda o, y: nn.functional.cross_entropy(o, y).mul(len(y)), nn.CrossEntropyLoss()),
    ):
        for batch_size in (1000, 7):
            found = evaluate(whole(given), SCORES, CLASSES, batch_size=batch_size)
            assert found["test_loss"] == pytest.approx(float(by_hand(SCORES, CLASSES)))


@pytest.mark.parametrize(
    "metric", [ACCURACY, PERPLEXITY, BITS_PER_CHARACTER, TEST_LOSS], ids=lambda m: m.name
)
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


def test_perplexity_and_bits_by_hand():
    found = [
        evaluate(whole(nn.CrossEntropyLoss()), TEXT * 0, LETTERS, metric=m)[m.name]
        for m in (PERPLEXITY, BITS_PER_CHARACTER)
    ]
    assert found == [pytest.approx(7), pytest.approx(math.log2(7))]


def test_errors_of_numbers():
    x, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.5]])
    for metric, value in ((MEAN_SQUARED_ERROR, 2.125), (MEAN_ABSOLUTE_ERROR, 1.25)):
        assert evaluate(whole(nn.MSELoss()), x, y, metric=metric)[metric.name] == value
    with pytest.raises(ValueError, match="equal shapes"):
        MEAN_SQUARED_ERROR.measure(x, y[:, 0])


def test_a_metric_of_ones_own():
    mine = Metric("largest", lambda output, y: (float(output.max()), 1), higher_is_better=False)
    found = evaluate(whole(nn.CrossEntropyLoss()), SCORES, CLASSES, metric=mine)
    assert found["largest"] == float(SCORES.max())
    assert mine.best([1.0, 2.0]) == 1.0
    assert (mine.reaches(1.0, 1.0), mine.reaches(1.1, 1.0)) == (True, False)
    with pytest.raises(ValueError, match="as in a Python name"):
        Metric("two words", None)
    broken = Metric("broken", lambda output, y: (math.nan, 1))
    with pytest.raises(FloatingPointError, match="broken is nan"):
        evaluate(whole(nn.CrossEntropyLoss()), SCORES, CLASSES, metric=broken)


@pytest.mark.later
def test_metrics_of_the_whole_set_do_not_depend_on_batches():
    party = whole(nn.CrossEntropyLoss())
    x, y = drawn(60, 3), torch.arange(60) % 3
    for metric in (AUROC, F1, BALANCED_ACCURACY):
        one, many = (evaluate(party, x, y, metric=metric, batch_size=size) for size in (60, 7))
        assert one[metric.name] == many[metric.name]
    right = nn.functional.one_hot(y, 3).float()
    assert evaluate(party, right, y, metric=AUROC)["auroc"] == 1.0
    # nine of ten are class 0, and everything is called 0: right in 90 % of cases, and useless
    always, rare = torch.tensor([[1.0, 0.0]]).repeat(10, 1), torch.tensor([0] * 9 + [1])
    found = [evaluate(party, always, rare, metric=m) for m in (ACCURACY, BALANCED_ACCURACY, F1)]
    assert [list(each.values())[1] for each in found] == pytest.approx([0.9, 0.5, 9 / 19])
    with pytest.raises(ValueError, match="both: give measure or of_all"):
        Metric("both", ACCURACY.measure, of_all=AUROC.of_all)


@pytest.mark.later
def test_a_metric_of_torchmetrics():
    torchmetrics = pytest.importorskip("torchmetrics", reason="pip install torchmetrics>=1.4")
    theirs = Metric("theirs", None, of_all=torchmetrics.AUROC("multiclass", num_classes=3))
    party, x, y = whole(nn.CrossEntropyLoss()), drawn(60, 3), torch.arange(60) % 3
    found = evaluate(party, x, y, metric=theirs, batch_size=7)["theirs"]
    assert found == pytest.approx(evaluate(party, x, y, metric=AUROC)["auroc"], abs=1e-6)
