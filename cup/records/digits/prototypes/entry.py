"""Prototypes instead of samples: the means of clusters (k-means) in each class of each owner."""

from bisect import bisect

import numpy as np

SHARE, KEPT, STEP, SPREAD = 0.25, 28, 0.5, 0.33
PLACE = np.arange(8)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 16) / 2
WAVES[0] /= 2**0.5
ORDER = np.argsort(np.add.outer(PLACE, PLACE).ravel(), kind="stable")[:KEPT]
MOST = 10
LEVELS = np.arange(-MOST, MOST + 1)


def cosines(images):
    return (WAVES @ images @ WAVES.T).reshape(-1, 64)[:, ORDER]


def table(past):
    """How often each level of each coefficient is expected, of 4,096, and what lies below it."""
    middle = past.sum(0) / (len(past) + 0.5)
    width = SPREAD / STEP + 1 / (1 + len(past))
    chances = np.exp(-(((LEVELS - middle[:, None]) / width) ** 2) / 2) + 1e-4
    often = 1 + np.floor(4000 * chances / chances.sum(1, keepdims=True)).astype(int)
    often[np.arange(KEPT), often.argmax(1)] += 4096 - often.sum(1)
    return often.tolist(), (np.cumsum(often, axis=1) - often).tolist()


def coded(steps):
    """Asymmetric numeral systems (Duda 2013, arXiv 1311.2540): the state is one large number."""
    state, tables = 1, [table(steps[:n]) for n in range(len(steps))]
    for row, (often, below) in zip(steps[::-1].tolist(), tables[::-1], strict=True):
        for k in range(KEPT):
            count = often[k][row[k] + MOST]
            state = (state // count << 12) + state % count + below[k][row[k] + MOST]
    return state.to_bytes(-(-state.bit_length() // 8), "little")


def decoded(message, count):
    state, rows = int.from_bytes(message, "little"), np.zeros((count, KEPT), int)
    for n in range(count):
        often, below = table(rows[:n])
        for k in reversed(range(KEPT)):
            level = bisect(below[k], state & 4095) - 1
            state = often[k][level] * (state >> 12) + (state & 4095) - below[k][level]
            rows[n, k] = level - MOST
    return rows


def prototypes(x, rng):
    number = round(SHARE * len(x))
    found = x[rng.permutation(len(x))[:number]]
    for _ in range(12):
        nearest = ((x[:, None] - found) ** 2).sum(2).argmin(1)
        found = np.stack([x[nearest == k].mean(0) for k in range(number) if (nearest == k).any()])
        number = len(found)
    return found


def owner(me, message):
    rng, x = me.rng(), cosines(me.x)
    classes = [x[me.y == k] for k in range(10)]
    found = [prototypes(mine, rng) if SHARE * len(mine) > 0.5 else mine[:0] for mine in classes]
    steps = np.clip(np.round(np.concatenate(found) / STEP), -MOST, MOST).astype(int)
    return "samples", bytes(map(len, found)) + coded(steps)


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:10], np.uint8)))
        xs.append(STEP * decoded(message[10:], len(ys[-1])))
    return learned(np.concatenate(xs), np.concatenate(ys))


def learned(x, y, gamma=0.15, ridge=0.1):
    def near(z):
        return np.exp(-gamma * ((z[:, None] - x) ** 2).sum(2))

    weights = np.linalg.solve(near(x) + ridge * np.eye(len(x)), 2 * np.eye(10)[y] - 1)
    return lambda image: (near(cosines(image)) @ weights)[0]
