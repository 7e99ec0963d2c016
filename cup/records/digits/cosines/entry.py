"""Fewer numbers per image: 28 of the 64 coefficients of a cosine transform, in coarse steps."""

import lzma

import numpy as np

HOW = {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 9, "pb": 0}]}
SHARE, KEPT, STEP = 0.4, 28, 0.5
PLACE = np.arange(8)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 16) / 2
WAVES[0] /= 2**0.5
ORDER = np.argsort(np.add.outer(PLACE, PLACE).ravel(), kind="stable")[:KEPT]


def cosines(images):
    return (WAVES @ images @ WAVES.T).reshape(-1, 64)[:, ORDER]


def owner(me, message):
    rows = me.rng().permutation(len(me.y))[: round(SHARE * len(me.y))]
    rows = rows[np.argsort(me.y[rows], kind="stable")]
    steps = np.round(cosines(me.x[rows]) / STEP).astype(np.int8)
    counts = np.bincount(me.y[rows], minlength=10).astype(np.uint8)
    return "samples", counts.tobytes() + lzma.compress(steps.T.tobytes(), **HOW)


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        steps = np.frombuffer(lzma.decompress(message[10:], **HOW), np.int8)
        xs.append(STEP * steps.reshape(KEPT, -1).T)
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:10], np.uint8)))
    return learned(np.concatenate(xs), np.concatenate(ys))


def learned(x, y, gamma=0.2, ridge=0.1):
    def near(z):
        return np.exp(-gamma * ((z[:, None] - x) ** 2).sum(2))

    weights = np.linalg.solve(near(x) + ridge * np.eye(len(x)), 2 * np.eye(10)[y] - 1)
    return lambda image: (near(cosines(image)) @ weights)[0]
