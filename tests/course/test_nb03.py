from course.answers import Case

from fltoolkit.split import Decay, LossGate, State, gate_trace

LOSSES = [2.0 * 0.8**epoch + 0.01 * (epoch % 3) for epoch in range(40)]
IN_A = gate_trace(LOSSES, LossGate(0.1, schedule=Decay(0.9))).count(State.A)
CONSTANT = gate_trace(LOSSES, LossGate(0.1)).count(State.A)

CASES = {
    "states of the seven epochs": Case(
        facts={"losses": [2.0, 1.4, 1.3, 1.2, 1.0, 0.9, 0.9], "threshold": 0.3},
        right=[
            "AAABCAB",
            "aaabcab",
            "A A A B C A B",
            "A, A, A, B, C, A, B",
            list("AAABCAB"),
            [State(letter) for letter in "AAABCAB"],
        ],
        wrong=["AABCABC", "AAABCCC", "BAABCAB", "AAACCAB", "AAABCA", "maybe", 7, []],
    ),
    "epochs in A": Case(facts={"losses": LOSSES}, right=[IN_A], wrong=[CONSTANT, 40, 0]),
}
