"""One sum, half of it shared: covariances of each class for thirteen numbers, one for all 19."""

import numpy as np

KEPT, OWN, BITS, RIDGE = 15, 13, 13, 0.01
PLACE = np.arange(8)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 16) / 2
WAVES[0] /= 2**0.5
ORDER = np.argsort(np.add.outer(PLACE, PLACE).ravel(), kind="stable")[:KEPT]
SIZE = KEPT + 4
MINE = np.triu_indices(OWN)
OURS = tuple(part[np.triu_indices(SIZE)[1] >= OWN] for part in np.triu_indices(SIZE))


def numbers(images):
    """Cosine coefficients, and how much changes along rows, columns and diagonals."""
    x = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    changes = x[:, 1:-1, 2:] - x[:, 1:-1, :-2], x[:, 2:, 1:-1] - x[:, :-2, 1:-1]
    changes += x[:, 2:, 2:] - x[:, :-2, :-2], x[:, 2:, :-2] - x[:, :-2, 2:]
    cosines = (WAVES @ images @ WAVES.T).reshape(-1, 64)[:, ORDER]
    cosines[:, 0] -= 2.4
    return np.column_stack([cosines, *(np.abs(each).sum((1, 2)) / 8 - 2.9 for each in changes)])


def owner(me, message):
    x = numbers(me.x)
    parts = [(x.T @ x)[OURS] / 2]
    for k in range(10):
        mine = x[me.y == k]
        parts += [[len(mine)], 8 * mine.sum(0), 4 * (mine.T @ mine)[MINE]]
    return "update", np.round(np.concatenate(parts)).astype(int), BITS


def server(me):
    total = yield "control", b""
    signed = (total + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
    everywhere, spreads, means = np.zeros((SIZE, SIZE)), [], []
    everywhere[OURS] = 2 * signed[: len(OURS[0])]
    rows = signed[len(OURS[0]) :].reshape(10, -1)
    for count, *rest in rows:
        mean, products = np.array(rest[:SIZE]) / 8 / max(count, 1), np.zeros((OWN, OWN))
        products[MINE] = np.array(rest[SIZE:]) / 4
        everywhere[:OWN, :OWN] += products
        products = products + products.T - np.diag(np.diag(products))
        means.append(mean)
        spreads.append(products / max(count, 1) - np.outer(mean[:OWN], mean[:OWN]))
    means, counts = np.array(means), rows[:, 0]
    everywhere += everywhere.T - np.diag(np.diag(everywhere))
    shared = (everywhere - (means.T * counts) @ means) / counts.sum() + RIDGE * np.eye(SIZE)
    # what the first numbers do not say about the others has one distribution for all classes
    slopes = np.linalg.solve(shared[:OWN, :OWN], shared[:OWN, OWN:])
    rest = np.linalg.inv(shared[OWN:, OWN:] - shared[OWN:, :OWN] @ slopes)
    spreads = 0.8 * np.array(spreads) + 0.2 * shared[:OWN, :OWN] + RIDGE * np.eye(OWN)
    inverses, sizes = np.linalg.inv(spreads), np.linalg.slogdet(spreads)[1]

    def predict(image):
        away = numbers(image[None]) - means
        first, last = away[:, :OWN], away[:, OWN:] - away[:, :OWN] @ slopes
        fits = np.einsum("kij,ki,kj->k", inverses, first, first)
        return -fits - np.einsum("ij,ki,kj->k", rest, last, last) - sizes

    return predict
