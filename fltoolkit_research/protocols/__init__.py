"""The package's protocols, as values for experiments; each is imported when it is asked for.

    cut          a network is cut: split, relay, splitfed, split_async
    averaging    whole networks are averaged: fedavg
    null_rows    what every method is compared with: pooled, solved, one_sum,
                 alone, nothing

Each is a small function that calls its algorithm, and an example for a protocol of your own.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
