"""The server also compares where the brightness changes: it costs no byte."""

from bisect import bisect

import numpy as np

SHARE, KEPT, STEP, SPREAD = 0.2, 28, 0.5, 0.28
PLACE = np.arange(8)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 16) / 2
WAVES[0] /= 2**0.5
ORDER = np.argsort(np.add.outer(PLACE, PLACE).ravel(), kind="stable")[:KEPT]
MOST = 10
LEVELS = np.arange(-MOST, MOST + 1)


def cosines(images):
    return (WAVES @ images @ WAVES.T).reshape(-1, 64)[:, ORDER]


def table(past, classes):
    """How often each level of each coefficient is expected, of 4,096, and what lies below it."""
    everywhere = past.sum(0) / (len(past) + 0.5)
    mine = past[classes[: len(past)] == classes[len(past)]]
    middle = (mine.sum(0) + 0.5 * everywhere) / (len(mine) + 0.5)
    width = SPREAD / STEP + 0.4 / (1 + len(mine))
    chances = np.exp(-(((LEVELS - middle[:, None]) / width) ** 2) / 2) + 1e-4
    often = 1 + np.floor(4000 * chances / chances.sum(1, keepdims=True)).astype(int)
    often[np.arange(KEPT), often.argmax(1)] += 4096 - often.sum(1)
    return often.tolist(), (np.cumsum(often, axis=1) - often).tolist()


def coded(steps, classes):
    """Asymmetric numeral systems (Duda 2013, arXiv 1311.2540): the state is one large number."""
    state, tables = 1, [table(steps[:n], classes) for n in range(len(steps))]
    for row, (often, below) in zip(steps[::-1].tolist(), tables[::-1], strict=True):
        for k in range(KEPT):
            count = often[k][row[k] + MOST]
            state = (state // count << 12) + state % count + below[k][row[k] + MOST]
    return state.to_bytes(-(-state.bit_length() // 8), "little")


def decoded(message, classes):
    state, rows = int.from_bytes(message, "little"), np.zeros((len(classes), KEPT), int)
    for n in range(len(classes)):
        often, below = table(rows[:n], classes)
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
    classes = np.repeat(np.arange(10), list(map(len, found)))
    return "samples", bytes(map(len, found)) + coded(steps, classes)


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:10], np.uint8)))
        xs.append(STEP * decoded(message[10:], ys[-1]))
    return learned(np.concatenate(xs), np.concatenate(ys))


def seen(x):
    """The coefficients, and 21 each of the changes along rows, columns and both diagonals."""
    whole = np.zeros((len(x), 64))
    whole[:, ORDER] = x
    i = np.pad(WAVES.T @ whole.reshape(-1, 8, 8) @ WAVES, ((0, 0), (1, 1), (1, 1)))
    changes = [i[:, 1:-1, 2:] - i[:, 1:-1, :-2], i[:, 2:, 1:-1] - i[:, :-2, 1:-1]]
    changes += [i[:, 2:, 2:] - i[:, :-2, :-2], i[:, 2:, :-2] - i[:, :-2, 2:]]
    return np.concatenate([x, *(0.7 * cosines(np.abs(each))[:, :21] for each in changes)], axis=1)


def learned(x, y, gamma=0.05, ridge=0.05):
    x = seen(x)

    def near(z):
        return np.exp(-gamma * ((z[:, None] - x) ** 2).sum(2))

    weights = np.linalg.solve(near(x) + ridge * np.eye(len(x)), 2 * np.eye(10)[y] - 1)
    return lambda image: (near(seen(cosines(image))) @ weights)[0]
