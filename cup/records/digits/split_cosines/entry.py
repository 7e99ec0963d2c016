"""Split: nine of ten images, in 20 cosine coefficients of four bits: ten bytes per image."""

import numpy as np

KEPT, STEP, SHARE = 20, 0.2, 0.9
PLACE = np.arange(8)
WAVES = np.cos(np.pi * (2 * PLACE + 1) * PLACE[:, None] / 16) / 2
WAVES[0] /= 2**0.5
ORDER = np.argsort(np.add.outer(PLACE, PLACE).ravel(), kind="stable")[:KEPT]


def cosines(images):
    return (WAVES @ images @ WAVES.T).reshape(-1, 64)[:, ORDER]


def features(me, message):
    """Four bits per coefficient, around the mean of all samples."""
    x = cosines(me.x)
    me.middle = x.mean(0).astype(np.float16)
    codes = [encode(me, image) for image in me.x[: round(SHARE * len(x))]]
    return "activations", me.middle.tobytes() + b"".join(codes)


def encode(me, image):
    levels = np.clip(np.floor((cosines(image)[0] - me.middle) / STEP) + 8, 0, 15).astype(int)
    return sum(level << 4 * k for k, level in enumerate(levels.tolist())).to_bytes(10, "little")


def labels(me):
    (message,) = yield "control", b""

    def unpacked(code):
        numbers = np.frombuffer(code, np.uint8)[:, None] >> [0, 4] & 15
        return numbers.reshape(-1, KEPT) * STEP

    x = unpacked(message[2 * KEPT :])
    y = me.y[: len(x)]

    def near(z):
        return np.exp(-0.2 * ((z[:, None] - x) ** 2).sum(2))

    weights = np.linalg.solve(near(x) + 0.2 * np.eye(len(x)), 2 * np.eye(10)[y] - 1)
    return lambda code: (near(unpacked(code)) @ weights)[0]
