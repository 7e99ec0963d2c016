"""A better learner needs fewer samples: a third of them, and ridge regression with a kernel."""

import lzma

import numpy as np

HOW = {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 9, "pb": 0}]}
SHARE = 0.34


def owner(me, message):
    rows = me.rng().permutation(len(me.y))[: round(SHARE * len(me.y))]
    rows = rows[np.argsort(me.y[rows], kind="stable")]
    pixels = np.round(3 * me.x[rows]).astype(np.uint8).reshape(-1, 4)
    counts = np.bincount(me.y[rows], minlength=10).astype(np.uint8)
    bits = (pixels << [0, 2, 4, 6]).sum(1).astype(np.uint8)
    return "samples", counts.tobytes() + lzma.compress(bits.tobytes(), **HOW)


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        bits = np.frombuffer(lzma.decompress(message[10:], **HOW), np.uint8)
        xs.append((bits[:, None] >> [0, 2, 4, 6] & 3).reshape(-1, 64) / 3)
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:10], np.uint8)))
    return learned(np.concatenate(xs), np.concatenate(ys))


def learned(x, y, gamma=0.1, ridge=0.1):
    def near(z):
        return np.exp(-gamma * ((z[:, None] - x) ** 2).sum(2))

    weights = np.linalg.solve(near(x) + ridge * np.eye(len(x)), 2 * np.eye(10)[y] - 1)
    return lambda image: (near(image.reshape(1, -1)) @ weights)[0]
