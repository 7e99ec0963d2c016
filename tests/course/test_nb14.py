from course.answers import Case

SCORES = [0.96, 0.95, 0.97, 0.96, 0.96]
CASES = {
    "bytes of an exchange": Case(
        facts={"num_owners": 5, "down": 4800, "up": 3600},
        right=[42_020, "42,020 B"],
        wrong=[42_000, 8404, 42_010, 24_010, 18_010],
    ),
    "the bound of five runs": Case(
        facts={"scores": SCORES}, right=[0.9533], wrong=[0.96, 0.95, 0.9568, 0.9449]
    ),
}
