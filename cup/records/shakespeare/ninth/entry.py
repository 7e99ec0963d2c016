"""A ninth of the text (bzip2); the server counts with how many others each pair occurs."""

import bz2

import numpy as np

ORDER, WEIGHT, POWER = 6, 6, 1.3


def owner(me, message):
    return "samples", bz2.compress(me.x[: len(me.x) // 9].astype(np.uint8).tobytes())


def server(me):
    messages = yield "control", b""
    return counted([bz2.decompress(message) for message in messages], me.num_classes)


def counted(texts, size):
    """For each length of context, sorted: (context, what follows), and one place longer.

    Below the longest context a pair counts once for each character that stood before it (Kneser and
    Ney 1995): so a character that only follows one word does not look common.
    """
    text = np.frombuffer(b"".join(bytes(ORDER) + text for text in texts), np.uint8).astype(int)
    keys = np.zeros(len(text) - ORDER, int)
    for k in range(ORDER):
        keys += text[ORDER - 1 - k : len(text) - 1 - k] * size ** (ORDER - 1 - k)
    pairs = [np.unique(keys // size**k * size + text[ORDER:]) for k in reversed(range(ORDER))]
    pairs.append(np.sort(keys * size + text[ORDER:]))

    def predict(context):
        chances, last = np.full(size, 1 / size), 0
        for k in range(ORDER + 1):
            last = last * size + int(context[-k]) if k else 0
            step = size if k == ORDER else size**2
            found = np.searchsorted(pairs[k], [last * step, (last + 1) * step])
            if found[0] == found[1]:
                break
            counts = np.bincount(pairs[k][slice(*found)] % size, minlength=size)
            weight = WEIGHT * np.count_nonzero(counts)
            chances = (counts + weight * chances) / (counts.sum() + weight)
        return POWER * np.log(chances)

    return predict
