"""Federated learning: a server and many clients train one model, compressed both ways.

    client      what a client does alone: a plain function, and a faster one with equal results
    many_at_once  the training of many clients in one vectorized computation
    server      how a mean update changes the server's model
    clock       how long clients take, in virtual time, and how much late updates count
    means       how the updates of a round become one
    privacy     a mean of clipped updates with Gaussian noise
    adaptive    compression that changes during the run
    samples     the clients' samples, and whether model and loss fit them
    workers     clients, their training and their updates, as one value
    rounds      federated averaging, round by round
    asynchronous  servers that do not wait for a round
    drift       owners who differ: steps that are corrected for it
    personal    owners who differ: parts of a model, or a model, that stay at home
    adapters    LoRA factors of several clients, averaged exactly
    exchange    an average among workers: through a server, all to all, or in a ring
    data_parallel  gradients averaged at every step; what workers remember
    local_steps  many local steps, then an average of how far workers came; streamed in fragments
    gossip      no server: a random partner, or a few random values of all, averaged
    decoupled_momentum  momentum of which only the fast part is sent
    muon        an optimizer whose steps are orthogonal matrices
    zeroth_order  seeds and scalars in place of gradients

`_dense` writes out the steps of linear layers. Notebooks 04 to 06 derive this room.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
