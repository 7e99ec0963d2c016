"""Send the data, without loss: the server trains a small convolutional network on all of it."""

import bz2

import numpy as np


def owner(me, message):
    order = np.argsort(me.y, kind="stable")
    pixels = np.round(255 * me.x[order]).astype(np.uint8)
    counts = np.bincount(me.y, minlength=10).astype(np.uint16)
    return "samples", counts.tobytes() + bz2.compress(pixels.tobytes())


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:20], np.uint16)))
        pixels = np.frombuffer(bz2.decompress(message[20:]), np.uint8)
        xs.append(small(pixels.reshape(-1, 28, 28).astype(np.float32) / 255))
    net = learned(np.concatenate(xs), np.concatenate(ys), 700)
    return lambda image: net(small(image[None]))


def small(x):
    return x.reshape(-1, 14, 2, 14, 2).mean((2, 4))


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
