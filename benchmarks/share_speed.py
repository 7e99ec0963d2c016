"""How long it takes to share the secrets of one secure sum: plain code and a library.

    python -m benchmarks.share_speed    # needs pycryptodome, which Flower installs

A hundred clients share two secrets of 32 bytes each with everybody; 67 shares are enough to
compute one. The library
shares 16 bytes at a time, so a secret takes it two calls. Seconds of processor time.
"""

import os
import time

from fltoolkit_research.secrecy.shamir import into_shares

CLIENTS, THRESHOLD, SECRETS = 100, 67, 2


def seconds_of_one(share, repeats):
    start = time.process_time()
    for _ in range(repeats):
        share()
    return (time.process_time() - start) / repeats


def main() -> None:
    from Crypto.Protocol.SecretSharing import Shamir

    ours = seconds_of_one(
        lambda: into_shares(os.urandom(32), range(CLIENTS), THRESHOLD, os.urandom), repeats=50
    )
    half = seconds_of_one(lambda: Shamir.split(THRESHOLD, CLIENTS, os.urandom(16)), repeats=5)
    print(f"fltoolkit_research.secrecy.shamir: {CLIENTS * SECRETS * ours:6.2f} s")
    print(f"pycryptodome:             {CLIENTS * SECRETS * 2 * half:6.2f} s")
    print(f"ratio:                    {2 * half / ours:6.0f}")


if __name__ == "__main__":
    main()
