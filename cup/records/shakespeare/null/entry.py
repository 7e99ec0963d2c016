"""Send the text, without loss (bzip2): the server counts what follows up to five characters."""

import bz2

import numpy as np

ORDER, WEIGHT = 5, 10


def owner(me, message):
    return "samples", bz2.compress(me.x.astype(np.uint8).tobytes())


def server(me):
    messages = yield "control", b""
    return counted([bz2.decompress(message) for message in messages], me.num_classes)


def counted(texts, size):
    """The characters before each place, as one number: in order, like contexts are neighbours."""
    text = np.frombuffer(b"".join(bytes(ORDER) + text for text in texts), np.uint8).astype(int)
    keys = np.zeros(len(text) - ORDER, int)
    for k in range(ORDER):
        keys += text[ORDER - 1 - k : len(text) - 1 - k] * size ** (ORDER - 1 - k)
    order = np.argsort(keys, kind="stable")
    keys, follows = keys[order], text[ORDER:][order]

    def predict(context):
        chances, last = np.full(size, 1 / size), 0
        for k in range(ORDER + 1):
            last = last * size + int(context[-k]) if k else 0
            step = size ** (ORDER - k)
            lower, upper = np.searchsorted(keys, [last * step, (last + 1) * step])
            if lower == upper:
                break
            counts = np.bincount(follows[lower:upper], minlength=size)
            weight = WEIGHT * np.count_nonzero(counts)
            chances = (counts + weight * chances) / (upper - lower + weight)
        return np.log(chances)

    return predict
