"""Federated learning: a server and many clients train one model, compressed both ways.

    client      what a client does alone: a plain function, as in the papers
    many_at_once  the same for many clients, faster, with the steps of linear layers written out
    server      how a mean update changes the server's model
    clock       how long clients take, in virtual time, and how much late updates count
    means       how the updates of a round become one
    samples     the clients' samples, and whether model and loss fit them
    workers     clients, their training and their updates, as one value; what a protocol keeps
    rounds      federated averaging, round by round

Notebooks 04 to 06 derive this room.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
