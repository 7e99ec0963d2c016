"""Digits with a test on strangers: people whose images nobody trained on.

The usual split of digits deals out the images of 14 people at random, so its test images are by
people who are in the training set, too.
"""

import numpy as np
import torch

from fltoolkit.data.datasets import DIGITS, WRITERS_END, Dataset, standardize
from fltoolkit.data.partitions import generator

NUM_WRITERS = len(WRITERS_END)


def digits_by_writer(draw: int = 0, *, unseen: bool = True, num_test: int = 3) -> Dataset:
    """The digits of 14 people; those of ``num_test`` of them, drawn at random, are the test.

    With ``unseen=False`` the test images are drawn from all people, as many as in the test on
    strangers of the same ``draw``: for a comparison. ``owners`` of the training images are numbers
    from 0 to 13.

    >>> strangers = digits_by_writer(draw=0)
    >>> strangers, len(strangers.owners.unique())
    (Dataset(digits: 1,427 train, 370 test, x 1×8×8, 10 classes), 11)
    """
    if not 0 < num_test < NUM_WRITERS:
        raise ValueError(f"num_test={num_test}: must be 1 to {NUM_WRITERS - 1} of the writers")
    with np.load(DIGITS) as file:  # writer by writer
        pixels, y = file["pixels"], torch.from_numpy(file["labels"].astype(np.int64))
    x = standardize(pixels.reshape(-1, 1, 8, 8) / np.float32(16), "digits")
    owners = torch.bucketize(torch.arange(len(y)), torch.tensor(WRITERS_END), right=True)
    random = generator(draw)
    chosen = random.choice(NUM_WRITERS, num_test, replace=False)
    test = torch.isin(owners, torch.from_numpy(chosen))
    if not unseen:
        test = test[torch.from_numpy(random.permutation(len(test)))]
    return Dataset(x[~test], y[~test], x[test], y[test], 10, "digits", owners=owners[~test])
