"""More data sets, and more ways to deal them out.

    text        characters as numbers, in windows, by speaker
    partitions  who has which samples: by shards, in their order, by owner

The data sets of the course are in `fltoolkit.data`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
