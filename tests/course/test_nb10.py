from course.answers import NAN, Case

CASES = {
    "bytes of an envelope": Case(
        facts={"extra": 19_546, "num_messages": 690},
        right=[28],
        wrong=[19_546, 19_546 / 690, 19_546 / 2, NAN],
    ),
    "seconds of waiting": Case(right=[13.8], wrong=[6.9, 0.138, 13_800, 0.92, NAN]),
}
