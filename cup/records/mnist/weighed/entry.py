"""One bit per pixel: a logistic regression that goes on learning says how likely each bit is."""

from math import exp
from operator import mul

import numpy as np

EACH, SIZE, BITS, STEPS, NETS, RATE = 6, 10, 12, 1000, 3, 0.15
WIDE = SIZE + 4  # with margins of zeros
PLACES = [WIDE * (k // SIZE + 2) + k % SIZE + 2 for k in range(SIZE**2)]
NEAR, MEANS = (-1, -WIDE, -WIDE - 1, -WIDE + 1, -2, -2 * WIDE), (0, 1, WIDE)


def owner(me, message):
    rows = me.rng().permutation(len(me.y))[:EACH]
    rows = rows[np.argsort(me.y[rows], kind="stable")]
    return "samples", coded(np.c_[me.y[rows], reduced(me.x[rows]).reshape(EACH, -1)])


def server(me):
    messages = yield "control", b""
    numbers = np.concatenate([decoded(message) for message in messages])
    x, y = numbers[:, 1:].reshape(-1, SIZE, SIZE).astype(np.float32), numbers[:, 0]
    nets = [learned(x, y, seed) for seed in range(NETS)]

    def predict(image):
        x = small(image[None])
        return sum(net(x).softmax(0) for net in nets).log()

    return predict


def walked(choose):
    """Rows of a class and its bits: each is what ``choose`` makes of how likely a yes is."""
    rows, every, by_class = [], [], [[] for _ in range(10)]
    weights, paces = [-0.3, 2, 2, 0, 0, 0, 0, 2, 0, 0], [1.0] * 10
    while len(rows) < EACH:  # in order of classes: the next one is likely to be the same
        if not rows or not choose(0.85):
            digit = sum(choose(0.5) << bit for bit in range(4)) % 10
        means, image = expected(by_class[digit], every), [0] * WIDE**2
        for place in PLACES:
            near = [image[place + step] - 0.5 for step in NEAR]
            seen = [1, *near, *(means[place + step] - 0.5 for step in MEANS)]
            logit = sum(map(mul, weights, seen))
            chance = 1 / (1 + exp(-max(-7, min(7, logit))))
            image[place] = int(choose(chance))
            taught(weights, paces, seen, image[place] - chance)
        by_class[digit].append(image)
        every.append(image)
        rows.append([digit, *(image[place] for place in PLACES)])
    return np.array(rows)


def expected(mine, every):
    """The mean of the images of this class before, and of all before as if it were one of them."""
    overall = [sum(bits) / len(every) for bits in zip(*every, strict=True)] or [0] * WIDE**2
    return [sum(bits) / (1 + len(mine)) for bits in zip(overall, *mine, strict=True)]


def taught(weights, paces, seen, wrong):
    """Logistic regression goes on learning with each bit (AdaGrad, Duchi et al. 2011)."""
    for place, value in enumerate(seen):
        slope = wrong * value
        paces[place] += slope**2
        weights[place] += RATE * slope / paces[place] ** 0.5


def asked(rows):
    """The answers to all that ``walked`` asks."""
    before = None
    for digit, *bits in rows.tolist():
        if before is not None:
            yield digit == before
        if digit != before:
            yield from (digit >> bit & 1 for bit in range(4))
        before = digit
        yield from bits


def parts(chance):
    """How often of 2^BITS a yes comes, which lies first, and a no."""
    often = min(max(int(2**BITS * chance), 1), 2**BITS - 1)
    return {True: (0, often), False: (often, 2**BITS - often)}


def coded(rows):
    """Asymmetric numeral systems (Duda 2013, arXiv 1311.2540): the state is one large number."""
    answers, steps, state = asked(rows), [], 1

    def choose(chance):
        answer = bool(next(answers))
        steps.append(parts(chance)[answer])
        return answer

    walked(choose)
    for below, often in reversed(steps):
        rest, last = divmod(state, often)
        state = (rest << BITS) + last + below
    return state.to_bytes(-(-state.bit_length() // 8), "little")


def decoded(message):
    state = int.from_bytes(message, "little")

    def choose(chance):
        nonlocal state
        last = state & (2**BITS - 1)
        answer = last < parts(chance)[True][1]
        below, often = parts(chance)[answer]
        state = often * (state >> BITS) + last - below
        return answer

    return walked(choose)


def reduced(x):
    return (small(x) >= 0.5).astype(int)


def small(x):
    """14 x 14 pixels, each the mean of four; the outer two rows are margins."""
    return x.reshape(-1, 14, 2, 14, 2).mean((2, 4))[:, 2:12, 2:12]


def warped(x):
    """Each image a little turned, stretched, sheared and moved."""
    import torch
    from torch.nn import functional

    a, b, c, d = (torch.rand(4, len(x)) - 0.5) * torch.tensor([[0.4], [0.2], [0.2], [0.3]])
    e, f = (torch.rand(2, len(x)) - 0.5) * 0.34
    rows = [a.cos() * (1 + b), d - a.sin(), e, a.sin(), a.cos() * (1 + c), f]
    grid = functional.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), x.shape, align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def learned(x, y, seed):
    import torch  # only the server needs it, and it takes a second to load
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    layers += [nn.MaxPool2d(2, ceil_mode=True)]
    layers += [nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Linear(64, 10)]
    net, x, y = nn.Sequential(*layers), torch.from_numpy(x)[:, None], torch.from_numpy(y)
    optimizer = torch.optim.AdamW(net.parameters(), 0.01, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(len(x), (64,))
        loss = functional.cross_entropy(net(warped(x[rows])), y[rows], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()
    return lambda image: net(torch.from_numpy(image)[None])[0]
