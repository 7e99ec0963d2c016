"""Send the data in two bits per pixel."""

import lzma

import numpy as np

HOW = {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 9, "pb": 0}]}


def owner(me, message):
    order = np.argsort(me.y, kind="stable")
    pixels = np.round(3 * me.x[order]).astype(np.uint8).reshape(-1, 4)
    counts = np.bincount(me.y, minlength=10).astype(np.uint8)
    bits = (pixels << [0, 2, 4, 6]).sum(1).astype(np.uint8)
    return "samples", counts.tobytes() + lzma.compress(bits.tobytes(), **HOW)


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        bits = np.frombuffer(lzma.decompress(message[10:], **HOW), np.uint8)
        xs.append((bits[:, None] >> [0, 2, 4, 6] & 3).reshape(-1, 64) / 3)
        ys.append(np.repeat(np.arange(10), np.frombuffer(message[:10], np.uint8)))
    x, y = np.concatenate(xs), np.concatenate(ys)

    def predict(image):
        near = np.argsort(((x - image.ravel()) ** 2).sum(1))[:3]
        return np.bincount(y[near], weights=[1.2, 1.1, 1], minlength=10)

    return predict
