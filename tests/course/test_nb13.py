import numpy as np
from course.answers import Case

ANN, BEN, CEM = (np.array(x) for x in ([7, 50, 99], [1, 2, 3], [60, 70, 80]))
AB, AC, BC = (np.array(x) for x in ([20, 30, 40], [5, 96, 7], [88, 11, 2]))
HIDDEN = [(ANN + AB + AC) % 100, (BEN - AB + BC) % 100, (CEM - AC - BC) % 100]
TOTAL = (ANN + BEN + CEM) % 100
ADDED = [(ANN + AB + AC) % 100, (BEN + AB + BC) % 100, (CEM + AC + BC) % 100]
CASES = {
    "the third slip": Case(
        facts={"number": 23, "slips": (17, 88)}, right=[18], wrong=[-82, 5, 82, 0]
    ),
    "masks that cancel": Case(
        facts={"numbers": [ANN, BEN, CEM], "modulus": 100},
        right=[
            [*HIDDEN, TOTAL],
            tuple(h.tolist() for h in (*HIDDEN, TOTAL)),
            np.stack([*HIDDEN, TOTAL]),
        ],
        wrong=[
            [ANN, BEN, CEM, TOTAL],
            [*ADDED, TOTAL],
            [ANN + AB + AC, *HIDDEN[1:], TOTAL],
            [*HIDDEN, HIDDEN[0]],
            [*HIDDEN],
            TOTAL,
            5,
        ],
    ),
    "bits under the mask": Case(
        facts={"num_clients": 100, "bits": 3}, right=[10], wrong=[3, 300, 700, 103]
    ),
}
