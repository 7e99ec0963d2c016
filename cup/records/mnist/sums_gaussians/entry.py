"""One sum is enough: counts, means and products of each class, of digits made alike in form."""

import numpy as np
import torch
from torch.nn import functional

KEPT, BITS, SCALE, OWN, RIDGE, LEAST = 45, 20, 1.5, 0.8, 0.02, 0.002
PLACE = np.arange(28)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 56) / 14**0.5
WAVES[0] /= 2**0.5
SLOW = np.add.outer(PLACE, PLACE).ravel()
ORDER = np.argsort(SLOW, kind="stable")[1 : KEPT + 1]
UPPER = np.triu_indices(KEPT)


def alike(x):
    """Each image moved to its centre of mass, and stretched to about the same width both ways."""
    x = torch.from_numpy(np.ascontiguousarray(x))
    axis, mass = torch.linspace(-1, 1, 28) * 27 / 28, x.sum((1, 2))
    middle = torch.stack([(x.sum(1) * axis).sum(1), (x.sum(2) * axis).sum(1)], 1) / mass[:, None]
    away = [axis - middle[:, :1], axis - middle[:, 1:]]
    wide, high = ((x.sum(k) * part**2).sum(1) / mass for k, part in zip((1, 2), away, strict=True))
    both = torch.einsum("nij,ni,nj->n", x, away[1], away[0]) / mass
    sizes, turns = torch.linalg.eigh(torch.stack([wide, both, both, high], 1).view(-1, 2, 2))
    sizes = (sizes.clamp(min=0.002) ** 0.5 / 0.36) ** 0.7
    grid = torch.cat([turns * sizes[:, None] @ turns.mT, middle[:, :, None]], 2)
    grid = functional.affine_grid(grid, [len(x), 1, 28, 28], align_corners=False)
    return functional.grid_sample(x[:, None], grid, align_corners=False)[:, 0].numpy()


def cosines(images):
    return (WAVES @ alike(images) @ WAVES.T * (1 + SLOW.reshape(28, 28)) / 3).reshape(-1, 784)[
        :, ORDER
    ]


def owner(me, message):
    x, parts = cosines(me.x), []
    for k in range(10):
        mine = x[me.y == k]
        parts += [[len(mine)], SCALE * mine.sum(0), SCALE * (mine.T @ mine)[UPPER]]
    return "update", np.round(np.concatenate(parts)).astype(int), BITS


def server(me):
    total = yield "control", b""
    signed = (total + 2 ** (BITS - 1)) % 2**BITS - 2 ** (BITS - 1)
    means, spreads = [], []
    for count, *rest in signed.reshape(10, -1):
        mean, products = np.array(rest[:KEPT]) / SCALE / count, np.zeros((KEPT, KEPT))
        products[UPPER] = np.array(rest[KEPT:]) / SCALE / count
        products = products + products.T - np.diag(np.diag(products))
        means.append(mean)
        spreads.append(products - np.outer(mean, mean))
    middle = np.mean(spreads, axis=0)
    middle = (1 - OWN) * middle + RIDGE * np.diag(np.diag(middle))
    sizes, turns = np.linalg.eigh(OWN * np.array(spreads) + middle)
    sizes = np.maximum(sizes, LEAST)

    def predict(image):
        away = cosines(image[None]) - np.array(means)
        return -(np.einsum("kij,ki->kj", turns, away) ** 2 / sizes + np.log(sizes)).sum(1)

    return predict
