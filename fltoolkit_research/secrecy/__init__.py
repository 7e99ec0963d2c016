"""Secure sums, whose terms nobody sees, and what they cost in bytes.

    shamir      a secret in shares, of which a given number opens it
    keys        keys that two clients agree on, random streams, sealed envelopes
    graph       who shares masks with whom: everybody, or some
    summing     codecs whose messages can be added before they are decoded
    parties     what a client and the server compute in a secure sum
    four_rounds the four rounds of a secure sum, as an exchange and as a mean
    accounting  what noise on a mean promises, in words

Secure sums need the extra ``secrecy`` (the package ``cryptography``), accounting ``privacy``
(``dp-accounting``). docs/secrecy.md says what is protected from whom, and what is not.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
