"""Split: 200 labels. Of a hidden sample several warped views are read, and their mean decides."""

import numpy as np

NUMBER, SURE, VIEWS = 200, 0.95, 16


def features(me, message):
    _, me.common, *y = map(int, str(int.from_bytes(message, "little")))
    me.net = learned(small(me.x), np.array(y), 1500)
    return "control", b""


def encode(me, image):
    """The commonest class is an empty message, which is charged one byte for its length."""
    digit = read(me.net, small(image[None]))
    return bytes([digit] * (digit != me.common))


def read(net, x):
    """The class that is likeliest in the mean over an image and the same warped views of each."""
    import torch

    torch.manual_seed(0)
    x = torch.from_numpy(x)[:, None].repeat(VIEWS, 1, 1, 1)
    views = torch.cat([x[:1], warped(x[1:])])
    return int(net(views).softmax(1).mean(0).argmax())


def labels(me):
    common = np.bincount(me.y).argmax()
    number = int("".join(map(str, [1, common, *me.y[:NUMBER]])))
    yield "labels", number.to_bytes(-(-number.bit_length() // 8), "little")
    return lambda code: np.eye(10)[code[0] if code else common]


def small(x):
    """Each image moved to its centre of mass and stretched to about one width and height."""
    import torch
    from torch.nn import functional

    x = torch.from_numpy(np.ascontiguousarray(x))
    axis, mass = torch.linspace(-1, 1, 28) * 27 / 28, x.sum((1, 2))
    middle = torch.stack([(x.sum(1) * axis).sum(1), (x.sum(2) * axis).sum(1)], 1) / mass[:, None]
    away = [axis - middle[:, :1], axis - middle[:, 1:]]
    wide, high = ((x.sum(k) * part**2).sum(1) / mass for k, part in zip((1, 2), away, strict=True))
    both = torch.einsum("nij,ni,nj->n", x, away[1], away[0]) / mass
    sizes, turns = torch.linalg.eigh(torch.stack([wide, both, both, high], 1).view(-1, 2, 2))
    sizes = 0.7 * (sizes.clamp(min=0.002) ** 0.5 / 0.36) ** 0.7
    grid = torch.cat([turns * sizes[:, None] @ turns.mT, middle[:, :, None]], 2)
    grid = functional.affine_grid(grid, [len(x), 1, 24, 24], align_corners=False)
    x = functional.grid_sample(x[:, None], grid, align_corners=False)
    return functional.avg_pool2d(x, 2)[:, 0].numpy()


def warped(x):
    """Each image a little turned, stretched, sheared and moved."""
    import torch
    from torch.nn import functional

    a, b, c, d = (torch.rand(4, len(x)) - 0.5) * torch.tensor([[0.6], [0.4], [0.4], [0.5]])
    e, f = (torch.rand(2, len(x)) - 0.5) * 0.28
    rows = [a.cos() * (1 + b), d - a.sin(), e, a.sin(), a.cos() * (1 + c), f]
    grid = functional.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), x.shape, align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False)


def learned(x, y, steps):
    """FixMatch (Sohn et al. 2020, arXiv 2001.07685): the first images have labels."""
    import torch  # only this party needs it, and it takes a second to load
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
        rows, others = torch.randint(len(y), (64,)), x[torch.randint(len(x), (128,))]
        with torch.no_grad():
            sure, guess = net(others).softmax(1).max(1)
        scores = net(warped(torch.cat([x[rows], others])))
        wrong = functional.cross_entropy(scores, torch.cat([y[rows], guess]), reduction="none")
        loss = wrong[:64].mean() + (wrong[64:] * (sure > SURE)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net.eval()
