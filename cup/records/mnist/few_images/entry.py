"""A hundred images of each owner, 14 x 14 pixels in two levels."""

import numpy as np

EACH, LEVELS = 100, 2


def owner(me, message):
    rows = me.rng().permutation(len(me.y))[:EACH]
    rows = rows[np.argsort(me.y[rows], kind="stable")]
    number = 0
    for level in reduced(me.x[rows]).ravel().tolist():
        number = number * LEVELS + level
    counts = np.bincount(me.y[rows], minlength=10).astype(np.uint8)
    length = -(-(LEVELS ** (EACH * 196)).bit_length() // 8)
    return "samples", counts.tobytes() + number.to_bytes(length, "big")


def reduced(x):
    """14 x 14 pixels, each the mean of four, in few levels."""
    pixels = x.reshape(-1, 14, 2, 14, 2).mean((2, 4))
    return np.clip((pixels * LEVELS).astype(int), 0, LEVELS - 1)


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:10], np.uint8)))
        number, levels = int.from_bytes(message[10:], "big"), []
        for _ in range(196 * EACH):
            number, level = divmod(number, LEVELS)
            levels.append(level)
        xs.append(np.reshape(levels[::-1], (-1, 14, 14)))
    net = learned(scaled(np.concatenate(xs)), np.concatenate(ys), 900)
    return lambda image: net(scaled(reduced(image[None])))


def scaled(levels):
    return levels.astype(np.float32) / (LEVELS - 1)


def learned(x, y, steps):
    import torch  # only the server needs it, and it takes a second to load
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Linear(64, 10)]
    net, x, y = nn.Sequential(*layers), torch.from_numpy(x)[:, None], torch.from_numpy(y)
    optimizer = torch.optim.AdamW(net.parameters(), 0.01, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        loss = functional.cross_entropy(net(x[rows]), y[rows], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()
    return lambda image: net(torch.from_numpy(image)[None])[0]
