"""Answers of notebook 09. What lies on the Drive is measured in the notebook."""

from course.answers import NAN, Case

CASES = {
    "refused with an error": Case(
        right=[4, 4.0, [1, 2, 3, 4], "1, 2, 3 and 4", "4"],
        wrong=[5, 6, [1, 2, 3, 4, 5], 3, "none of them", [1, 2]],
    ),
    "our bytes": Case(
        facts={"ours": 6, "on_the_drive": 4676}, right=[4670], wrong=[2 * 4676, 2338, 6, NAN]
    ),
    "seconds": Case(facts={"num_messages": 20}, right=[20], wrong=[10, 5, 1 / 3, 40]),
}
