"""check: helpful words, never an exception, and NaN is never right; fingerprints."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from course.answers import NAN, Printed
from hypothesis import given, settings
from hypothesis import strategies as st

from fltoolkit_course import check, fingerprint, predict


@pytest.mark.parametrize(
    ("answer", "expected", "tolerance", "right", "words"),
    [
        (3, 3, 0, True, "right, exactly"),
        (3.001, 3, 0.01, True, "right within 0.01 (largest difference 0.001)"),
        (3.1, 3, 0.01, False, "3.1 is 3.3 % too large"),
        (3.015, 3, 0.01, False, "3.015 is 0.5 % too large"),
        ([0, 3.015], [0, 3], 0.01, False, "1 of 2 values differ, by up to 0.015"),
        (None, 3, 0, False, "not answered yet"),
        (NAN, 3, 9, False, "NaN is never right"),
        (math.inf, math.inf, 0, True, "right, exactly"),
        ([1, 2], [1, 5], 0, False, "1 of 2 values differ, by up to 3"),
        ([1, NAN], [1, 2], 9, False, "1 of 2 values are NaN"),
        ([1, 2, 3], [1, 2], 0, False, "shape is (3,), it should be (2,)"),
        (torch.tensor([1.5]), torch.tensor([1]), 0, False, "differ, by up to 0.5"),
        ((["ann"], ("ben",)), [["ann"], ["ben"]], 0, True, "right"),
        (torch.ones(2).requires_grad_(), torch.ones(2), 0, True, "right, exactly"),
        (np.ones(2), torch.ones(2), 0, True, "right, exactly"),
        ("alice", "bob", 0, False, "alice is not the right answer"),
        ("three", 3, 0, False, "a str where a number should be"),
        ([[1], [1, 2]], [1, 2], 0, False, "a list where numbers of shape (2,) should be"),
        ({"a": torch.ones(2)}, {"a": torch.ones(2)}, 0, False, "is not the right answer"),
        ([], [], 0, True, "right, exactly"),
        (["fewer bytes", "92 %"], [], 0, False, "not yet. Still missing: fewer bytes, 92 %."),
        (len, 3, 0, False, "call it"),
    ],
)
def test_check(
    answer: Any, expected: Any, tolerance: float, right: bool, words: str, capsys: Printed
) -> None:
    assert check("bytes up", answer, expected, tolerance=tolerance) is right
    printed = capsys.readouterr().out
    assert printed.startswith("bytes up: ")
    assert words in printed


BY_VALUE = {4: "A float32 takes 4 bytes.", "bob": "A number, please.", 16: "never seen"}
BY_RULE = [(lambda a: a < 0, "A size is positive."), (lambda a: True, "Look again.")]


@pytest.mark.parametrize(
    ("answer", "hints", "end"),
    [
        (4, BY_VALUE, " A float32 takes 4 bytes.\n"),
        ("bob", BY_VALUE, " A number, please.\n"),
        (16, BY_VALUE, "bytes: right, exactly.\n"),
        (5, BY_VALUE, "too small.\n"),
        (-1, BY_RULE, " A size is positive.\n"),
        ("text", BY_RULE, " Look again.\n"),
    ],
)
def test_hints_fit_wrong_answers_only(answer: Any, hints: Any, end: str, capsys: Printed) -> None:
    check("bytes", answer, 16, hints=hints)
    assert capsys.readouterr().out.endswith(end)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@settings(max_examples=40)
@given(anything, anything, st.floats(0, 10))
def test_neither_ever_raises(answer: Any, expected: Any, tolerance: float) -> None:
    assert check("anything", answer, expected, tolerance=tolerance) in (True, False)
    predict("anything", answer, expected)


def test_the_same_value_has_the_same_fingerprint() -> None:
    assert fingerprint(torch.arange(3.0)) == fingerprint(torch.arange(3.0))
    assert fingerprint(torch.arange(3.0)) != fingerprint(torch.tensor([0.0, 1.0, 2.5]))
