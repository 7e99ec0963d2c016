"""The hidden digits are by strangers."""

from collections import Counter

import numpy as np

from fltoolkit.data.datasets import DIGITS, WRITERS_END
from fltoolkit_contest.tracks import TRACKS


def test_hidden_digits_are_all_images_of_three_people_whom_no_owner_has():
    """And other people in other runs. Images are turned: sorted pixels say whose one is."""
    with np.load(DIGITS) as file:
        keys = [image.tobytes() for image in np.sort(file["pixels"], axis=1)]
    writer = dict(zip(keys, np.searchsorted(WRITERS_END, range(len(keys)), "right"), strict=True))
    sizes, drawn = np.diff(WRITERS_END, prepend=0), []
    for seed in range(3):
        x = TRACKS["digits"].draw(seed, "open").hidden[0].reshape(-1, 64)
        rows = np.sort((16 * x).round().astype(np.uint8), axis=1)
        people = Counter(writer[row.tobytes()] for row in rows).most_common(3)
        assert sum(number for _, number in people) > len(x) - 5  # some images are there twice
        assert len(x) == sum(sizes[who] for who, _ in people)
        drawn.append(frozenset(who for who, _ in people))
    assert len({*drawn}) == 3
