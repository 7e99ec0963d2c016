"""Split, the plain way to win: the features party sends its images, three levels per pixel."""

import lzma

import numpy as np

HOW = {"format": lzma.FORMAT_RAW, "filters": [{"id": lzma.FILTER_LZMA2, "preset": 9, "pb": 0}]}


def packed(image):
    digits = np.append(np.round(2 * image.ravel()), 0).reshape(-1, 5)
    return (digits @ 3 ** np.arange(5)).astype(np.uint8).tobytes()


def unpacked(message):
    numbers = np.frombuffer(message, np.uint8)[:, None] // 3 ** np.arange(5) % 3
    return numbers.reshape(-1, 65)[:, :64] / 2


def features(me, message):
    return "samples", lzma.compress(b"".join(map(packed, me.x)), **HOW)


def encode(me, image):
    return packed(image)


def labels(me):
    (message,) = yield "control", b""
    x = unpacked(lzma.decompress(message, **HOW))

    def predict(code):
        near = np.argsort(((x - unpacked(code)) ** 2).sum(1))[:3]
        return np.bincount(me.y[near], weights=[1.2, 1.1, 1], minlength=10)

    return predict
