"""Federated learning: a server and many clients train one model, compressed both ways.

    rounds        federated averaging, round by round
    workers       clients, their training and their updates, as one value; what a protocol keeps
    client        what a client does alone: a plain function, as in the papers
    server        how a mean update changes the server's model
    means         how the updates of a round become one
    clock         how long clients take, in virtual time, and how much late updates count
    samples       the clients' samples, and whether model and loss fit them
    many_at_once  as client, for many clients at once: faster, with gradients of linear layers
                  written out; to read last

Notebooks 04 to 06 derive this room.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
