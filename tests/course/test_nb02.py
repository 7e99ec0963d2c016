from course.answers import Case

CASES = {
    "number of hand-overs": Case(
        facts={"num_rounds": 20, "num_clients": 3}, right=[59], wrong=[60, 40, 2]
    ),
    "weight of alice_2 in the mean": Case(
        facts={"counts": [502, 437, 488]},
        right=[437 / 1427],
        wrong=[1 / 3, 437, 30.6, 502 / 1427, 0.5],
    ),
}
