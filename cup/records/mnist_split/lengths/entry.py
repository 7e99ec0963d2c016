"""Split: 1,500 labels, and the commonest class costs one byte instead of two."""

import numpy as np

NUMBER = 1500


def features(me, message):
    number, y = int.from_bytes(message, "little"), []
    for _ in range(NUMBER):
        number, digit = divmod(number, 10)
        y.append(digit)
    me.common = max(range(10), key=y.count)
    me.net = learned(small(me.x[:NUMBER]), np.array(y), 2000)
    return "control", b""


def encode(me, image):
    """The commonest class is an empty message, which is charged one byte for its length."""
    digit = int(me.net(small(image[None])).argmax())
    return bytes([digit] * (digit != me.common))


def labels(me):
    y = me.y[:NUMBER].tolist()
    common = max(range(10), key=y.count)
    number = int("".join(map(str, y[::-1])))
    yield "labels", number.to_bytes(-(-number.bit_length() // 8), "little")
    return lambda code: np.eye(10)[code[0] if code else common]


def small(x):
    return x.reshape(-1, 14, 2, 14, 2).mean((2, 4))


def warped(x):
    """Each image a little turned, stretched, sheared and moved."""
    import torch
    from torch.nn import functional

    a, b, c, d = (torch.rand(4, len(x)) - 0.5) * torch.tensor([[0.4], [0.2], [0.2], [0.3]])
    e, f = (torch.rand(2, len(x)) - 0.5) * 0.24
    rows = [a.cos() * (1 + b), d - a.sin(), e, a.sin(), a.cos() * (1 + c), f]
    grid = functional.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), x.shape, align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def learned(x, y, steps):
    import torch  # only the server needs it, and it takes a second to load
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Linear(64, 10)]
    net, x, y = nn.Sequential(*layers), torch.from_numpy(x)[:, None], torch.from_numpy(y)
    optimizer = torch.optim.AdamW(net.parameters(), 0.005, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        loss = functional.cross_entropy(net(warped(x[rows])), y[rows], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()
    return lambda image: net(torch.from_numpy(image)[None])[0]
