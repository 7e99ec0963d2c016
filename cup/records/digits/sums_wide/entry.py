"""Federated averaging under a secure sum with twice as many hidden units."""

import numpy as np

WIDTH, ROUNDS, RATE, BITS, SCALE = 64, 25, 0.5, 12, 256
SHAPES = [(64, WIDTH), (1, WIDTH), (WIDTH, 10), (1, 10)]


def unpacked(values):
    found = []
    for rows, columns in SHAPES:
        found.append(values[: rows * columns].reshape(rows, columns))
        values = values[rows * columns :]
    return found


def scores(model, x):
    hidden = np.maximum(x @ model[0] + model[1], 0)
    return hidden, hidden @ model[2] + model[3]


def owner(me, message):
    start = np.frombuffer(message, np.float16).astype(np.float64)
    model, rng = unpacked(start), me.rng()
    x, targets = me.x.reshape(len(me.y), -1), np.eye(10)[me.y]
    for _ in range(5):
        for rows in np.array_split(rng.permutation(len(x)), max(1, len(x) // 16)):
            hidden, logits = scores(model, x[rows])
            chances = np.exp(logits - logits.max(1, keepdims=True))
            error = (chances / chances.sum(1, keepdims=True) - targets[rows]) / len(rows)
            back = (error @ model[2].T) * (hidden > 0)
            steps = [x[rows].T @ back, back.sum(0), hidden.T @ error, error.sum(0)]
            model = [part - RATE * step for part, step in zip(model, steps, strict=True)]
    update = np.concatenate([part.ravel() for part in model]) - start
    levels = np.round(SCALE * update * len(x) / 1437 + rng.random(len(start)) - 0.5)
    return "update", np.clip(levels, -400, 400).astype(int), BITS


def server(me):
    rng = me.rng()
    first = [rng.normal(size=shape) * (2 / shape[0]) ** 0.5 * (shape[0] > 1) for shape in SHAPES]
    model = np.concatenate([part.ravel() for part in first])
    for _ in range(ROUNDS):
        total = yield "model", model.astype(np.float16).tobytes()
        signed = (total + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
        model = model + signed / SCALE
    return lambda image: scores(unpacked(model), image.reshape(1, -1))[1][0]
