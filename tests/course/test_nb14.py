"""The checks of notebook 14: right answers in several spellings, and plausible mistakes."""

from course.answers import Case

SCORES = [0.96, 0.95, 0.97, 0.96, 0.96]
CASES = {
    "bytes of an exchange": Case(
        facts={"num_owners": 5, "down": 0, "up": 200},
        right=[1015],
        wrong=[1000, 203, 1010, 1011, 1005],
    ),
    "the bound of five runs": Case(
        facts={"scores": SCORES},
        right=[0.9533],
        wrong=[0.96, 0.95, 0.9568, 0.9449],
    ),
}
