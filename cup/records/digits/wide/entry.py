"""Federated averaging in float32 with twice as many hidden units."""

import numpy as np

WIDTH, ROUNDS, RATE = 64, 25, 0.5
SHAPES = [(64, WIDTH), (1, WIDTH), (WIDTH, 10), (1, 10)]


def unpacked(message):
    values, found = np.frombuffer(message, np.float32), []
    for rows, columns in SHAPES:
        found.append(values[: rows * columns].reshape(rows, columns).copy())
        values = values[rows * columns :]
    return found


def packed(arrays):
    return b"".join(array.astype(np.float32).tobytes() for array in arrays)


def scores(model, x):
    hidden = np.maximum(x @ model[0] + model[1], 0)
    return hidden, hidden @ model[2] + model[3]


def owner(me, message):
    model, rng = unpacked(message), me.rng()
    x, targets = me.x.reshape(len(me.y), -1), np.eye(10)[me.y]
    for _ in range(5):
        for rows in np.array_split(rng.permutation(len(x)), max(1, len(x) // 16)):
            hidden, logits = scores(model, x[rows])
            chances = np.exp(logits - logits.max(1, keepdims=True))
            error = (chances / chances.sum(1, keepdims=True) - targets[rows]) / len(rows)
            back = (error @ model[2].T) * (hidden > 0)
            steps = [x[rows].T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
            model = [part - RATE * step for part, step in zip(model, steps, strict=True)]
    return "update", np.float32(len(x)).tobytes() + packed(model)


def server(me):
    rng = me.rng()
    model = [rng.normal(size=shape) * (2 / shape[0]) ** 0.5 * (shape[0] > 1) for shape in SHAPES]
    for _ in range(ROUNDS):
        answers = yield "model", packed(model)
        weights = [np.frombuffer(answer[:4], np.float32)[0] for answer in answers]
        models = [unpacked(answer[4:]) for answer in answers]
        model = [np.average(parts, axis=0, weights=weights) for parts in zip(*models, strict=True)]
    return lambda image: scores(model, image.reshape(1, -1))[1][0]
