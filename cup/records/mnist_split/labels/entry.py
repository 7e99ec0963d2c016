"""Split: the features party gets the labels and trains alone. A hidden sample costs two bytes."""

import numpy as np


def features(me, message):
    number, y = int.from_bytes(message, "little"), []
    for _ in range(len(me.x)):
        number, digit = divmod(number, 10)
        y.append(digit)
    me.net = learned(small(me.x), np.array(y), 900)
    return "control", b""


def encode(me, image):
    return bytes([int(me.net(small(image[None])).argmax())])


def labels(me):
    number = 0
    for digit in me.y[::-1].tolist():
        number = 10 * number + digit
    yield "labels", number.to_bytes(-(-number.bit_length() // 8), "little")
    return lambda code: np.eye(10)[code[0]]


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
