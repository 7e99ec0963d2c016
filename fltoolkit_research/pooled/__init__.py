"""Send the data: the baseline of every method that trains together.

    from fltoolkit_research.pooled import beside_the_data, lossless, pool

Owners send their samples to one party, without loss or in few bits, and this party trains on all of
them: pooled or centralized training. It leaks everything, and it often sends fewer bytes than
methods that leak less. Read the room in this order:

    compressors  samples as bytes: a table of their values, the smallest of four compressors
    protocol     samples go through the channel, then one party trains
    times        how many times the compressed data a training has sent
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
