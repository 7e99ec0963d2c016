from course.answers import Case

CASES = {
    "crossover with the cut at 2": Case(
        facts={"num_features": 64, "num_samples": 1427, "num_rounds": 20},
        right=[2],
        wrong=[18, 4, 3],
    ),
    "bytes of a step with the thin tail": Case(
        right=[70_702], wrong=[70_656, 35_328, 35_351, 393_264, "70,701"]
    ),
}
