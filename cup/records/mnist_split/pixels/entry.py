"""Split, the null record: the features party sends its images, 14 x 14 pixels of one bit."""

import numpy as np


def features(me, message):
    return "activations", b"".join(encode(me, image) for image in me.x)


def encode(me, image):
    return np.packbits(image.reshape(14, 2, 14, 2).mean((1, 3)) > 0.35).tobytes()


def labels(me):
    (message,) = yield "control", b""
    net = learned(unpacked(message), me.y, 900)
    return lambda code: net(unpacked(code))


def unpacked(codes):
    bits = np.unpackbits(np.frombuffer(codes, np.uint8).reshape(-1, 25), axis=1, count=196)
    return bits.reshape(-1, 14, 14).astype(np.float32)


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
