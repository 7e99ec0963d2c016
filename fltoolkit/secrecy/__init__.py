"""What secrecy costs, in bytes: sums that nobody sees the terms of.

    shamir      a secret in shares, of which a given number opens it
    keys        keys that two clients agree on, random streams, sealed envelopes
    graph       who shares masks with whom: everybody, or some
    summing     codecs whose messages can be added before they are decoded
    parties     what a client and the server compute in a secure sum
    secure_sum  the four rounds of a secure sum, as an exchange and as a mean
    accounting  what noise on a mean promises, in words
    intersection  which samples two owners have in common, found without showing the others

Secure sums need the extra ``secrecy`` (the package ``cryptography``), accounting ``privacy``
(``dp-accounting``), and intersection ``intersection`` (``openmined-psi``). docs/secrecy.md says
what is protected from whom, and what is not.
"""

from fltoolkit.secrecy.accounting import Promise, promise
from fltoolkit.secrecy.graph import num_neighbours
from fltoolkit.secrecy.intersection import align
from fltoolkit.secrecy.secure_sum import (
    ROUNDS,
    Dropouts,
    PlainSum,
    RandomDropouts,
    SecureSum,
    secure_sum,
)
from fltoolkit.secrecy.summing import CountSketch, Grid, SharedMask, SharedRotation, bits_of_sum

__all__ = [
    "ROUNDS",
    "CountSketch",
    "Dropouts",
    "Grid",
    "PlainSum",
    "Promise",
    "RandomDropouts",
    "SecureSum",
    "SharedMask",
    "SharedRotation",
    "align",
    "bits_of_sum",
    "num_neighbours",
    "promise",
    "secure_sum",
]
