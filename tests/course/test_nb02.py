"""Answers of notebook 02."""

from course.answers import Case

CASES = {
    "number of hand-overs": Case(
        facts={"num_rounds": 20, "num_clients": 3},
        right=[59],
        wrong=[60, 40, 2],
    ),
    "weight of alice_2 in the mean": Case(
        facts={"counts": [304, 638, 495]},
        right=[638 / 1437],
        wrong=[1 / 3, 638, 44.4, 304 / 1437, 0.5],
    ),
}
