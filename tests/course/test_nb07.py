"""Answers of notebook 07, against a small made-up sweep and the package's own formulas."""

from course.answers import NAN, Case
from made_up import ALL

from fltoolkit_research import Point, points, seconds_on

RECORD = {"nbytes": 60_000_000, "num_waits": 400, "num_messages": 400}
FOUND = points(ALL)  # cheap ends at 0.7, dear at 0.93, worse with more bytes


def with_value(point: Point, value: float) -> Point:
    return point._replace(values={0: value})


SWEEP = [FOUND[0], with_value(FOUND[1], 0.93), with_value(FOUND[2], 0.95)]

CASES = {
    "cheapest with 93 %": Case(
        facts={"found": SWEEP}, right=["dear"], wrong=["cheap", "worse", "expensive", 2, 0.93]
    ),
    "seconds": Case(
        facts={"record": RECORD}, right=[80], wrong=[60, 20.0, 60 + 400 * 50, 80 / 60, NAN]
    ),
}


def test_the_seconds_are_those_of_the_package() -> None:
    assert seconds_on(RECORD, rate=1e6, latency=0.05) == 80
