"""One sum is enough: counts, means and covariances of each class, as whole numbers."""

import numpy as np

KEPT, BITS, OWN, RIDGE = 18, 14, 0.8, 0.005
PLACE = np.arange(8)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 16) / 2
WAVES[0] /= 2**0.5
ORDER = np.argsort(np.add.outer(PLACE, PLACE).ravel(), kind="stable")[:KEPT]
UPPER = np.triu_indices(KEPT)


def cosines(images):
    return (WAVES @ images @ WAVES.T).reshape(-1, 64)[:, ORDER]


def owner(me, message):
    x, parts = cosines(me.x), []
    for k in range(10):
        mine = x[me.y == k]
        products = mine.T @ mine
        parts += [[len(mine)], 8 * mine.sum(0), 8 * products[UPPER]]
    return "update", np.round(np.concatenate(parts)).astype(int), BITS


def server(me):
    total = yield "control", b""
    signed = (total + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
    means, spreads = [], []
    for count, *rest in signed.reshape(10, -1):
        count = max(count, 1)
        mean, products = np.array(rest[:KEPT]) / 8 / count, np.zeros((KEPT, KEPT))
        products[UPPER] = np.array(rest[KEPT:]) / 8 / count
        products = products + products.T - np.diag(np.diag(products))
        means.append(mean)
        spreads.append(products - np.outer(mean, mean))
    middle = np.mean(spreads, axis=0) + RIDGE * np.eye(KEPT)
    spreads = [OWN * spread + (1 - OWN) * middle + RIDGE * np.eye(KEPT) for spread in spreads]
    inverses, sizes = np.linalg.inv(spreads), np.linalg.slogdet(spreads)[1]

    def predict(image):
        away = cosines(image) - np.array(means)
        return -np.einsum("kij,ki,kj->k", inverses, away, away) - sizes

    return predict
