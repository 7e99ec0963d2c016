"""The patients of notebook 02b are those of scikit-learn, and each column has one owner."""

import numpy as np
import pytest

from fltoolkit_course.patients import patients


def test_each_column_has_one_owner():
    people = patients()
    owned = [column for columns in people.columns.values() for column in columns]
    assert sorted(owned) == [*range(30)] == [*range(people.x.shape[1])]
    assert len(people.x) == len(people.y) == 569
    assert int(people.y.sum()) == 212


def test_they_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets", reason="needs pip install scikit-learn")
    copy, source = patients(), datasets.load_breast_cancer()
    assert copy.names == source.feature_names.tolist()
    assert np.array_equal(copy.x.numpy(), source.data.astype(np.float32))
    assert np.array_equal(copy.y.numpy(), 1 - source.target)
