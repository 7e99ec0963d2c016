import gzip
import struct

import numpy as np
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32)


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_set(folder, num_train=6, num_test=4, compress=True, seed=0):
    """A tiny data set of MNIST's form (5×3 images); returns the training arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, kept = np.random.default_rng(seed), None
    for prefix, count in (("train", num_train), ("t10k", num_test)):
        images, labels = rng.integers(0, 256, (count, 5, 3)), rng.integers(0, 10, count)
        kept = kept or (images, labels)
        for kind, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
            path = folder / f"{prefix}-{kind}{'.gz' if compress else ''}"
            path.write_bytes(gzip.compress(idx(array)) if compress else idx(array))
    return kept
