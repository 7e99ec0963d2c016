"""Send the data, without loss: each owner's images and labels go to the server, which trains."""

import lzma

import numpy as np


def owner(me, message):
    order = np.argsort(me.y, kind="stable")
    pixels = np.round(16 * me.x[order]).astype(np.uint8).reshape(len(me.y), -1)
    counts = np.bincount(me.y, minlength=10).astype(np.uint8)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]
    return "samples", counts.tobytes() + lzma.compress(
        pixels.T.tobytes(), lzma.FORMAT_RAW, filters=filters
    )


def server(me):
    messages = yield "control", b""
    xs, ys = [], []
    for message in messages:
        counts = np.frombuffer(message[:10], np.uint8)
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 0, "pb": 0}]
        pixels = lzma.decompress(message[10:], lzma.FORMAT_RAW, filters=filters)
        xs.append(np.frombuffer(pixels, np.uint8).reshape(64, -1).T / 16)
        ys.append(np.repeat(np.arange(10), counts))
    x, y = np.concatenate(xs), np.concatenate(ys)

    def predict(image):
        near = np.argsort(((x - image.ravel()) ** 2).sum(1))[:3]
        return np.bincount(y[near], weights=[1.2, 1.1, 1], minlength=10)

    return predict
