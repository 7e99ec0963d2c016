"""Send the data: what every method that trains together must be compared with.

    from fltoolkit.pooled import lossless, pool, times_the_data

Owners send their samples to one place, without loss or in few bits, and one party trains on all of
them. The field calls this pooled or centralized training. It leaks everything, and it often sends
fewer bytes than methods that leak less. Read the room in this order:

    lossless    samples as bytes: a table of their values, the smallest of four compressors
    shrink      fewer pixels
    choose      fewer samples: random ones, or prototypes by k-means
    distill     a few made-up samples that stand for an owner's real ones
    pool        the protocol: samples go through the channel, then one party trains
    times       how many times the compressed data a training has sent
"""

from fltoolkit.pooled.choose import at_random, prototypes
from fltoolkit.pooled.distill import distilled
from fltoolkit.pooled.lossless import Distinct, Smallest, lossless
from fltoolkit.pooled.pool import pool
from fltoolkit.pooled.shrink import Shrink
from fltoolkit.pooled.times import beside_the_data, lossless_nbytes, times_the_data

__all__ = [
    "Distinct",
    "Shrink",
    "Smallest",
    "at_random",
    "beside_the_data",
    "distilled",
    "lossless",
    "lossless_nbytes",
    "pool",
    "prototypes",
    "times_the_data",
]
