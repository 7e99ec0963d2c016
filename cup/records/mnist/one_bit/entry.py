"""One bit per pixel of 28 x 28, then LZMA; the server sees how many of four pixels are ink."""

import lzma

import numpy as np

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 0, "lp": 0, "pb": 0}]


def owner(me, message):
    bits = np.packbits(me.x[np.argsort(me.y, kind="stable")] > 0.5)
    counts = np.bincount(me.y, minlength=10).astype(np.uint16)
    body = lzma.compress(bits.tobytes(), lzma.FORMAT_RAW, filters=FILTERS)
    return "samples", counts.tobytes() + body


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:20], np.uint16)))
        body = lzma.decompress(message[20:], lzma.FORMAT_RAW, filters=FILTERS)
        xs.append(small(np.unpackbits(np.frombuffer(body, np.uint8)).reshape(-1, 28, 28)))
    net = learned(np.concatenate(xs), np.concatenate(ys), 700)
    return lambda image: net(small(image[None] > 0.5))


def small(bits):
    return bits.reshape(-1, 14, 2, 14, 2).mean((2, 4)).astype(np.float32)


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
