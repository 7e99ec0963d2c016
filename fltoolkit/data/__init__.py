"""Data sets as tensors, ways to deal them out to clients, and batches in a reproducible order.

    datasets    digits offline, MNIST and Fashion-MNIST
    partitions  who has which samples: evenly, by a Dirichlet distribution, by columns
    batches     the same batches for the same seed, with the ids of their samples
    files       finds, downloads and checks files

More data sets are in `fltoolkit_research.data`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
