"""More ways to train together: without waiting, with few messages, with owners who differ.

    privacy         a mean of clipped updates with Gaussian noise
    asynchronous    servers that do not wait for a round
    drift           owners who differ: steps that are corrected for it
    personal        owners who differ: parts of a model, or a model, that stay at home
    exchange        an average among workers: through a server, all to all, or in a ring
    data_parallel   gradients averaged at every step; what workers remember
    local_steps     many local steps, then an average of how far workers came; in fragments
    gossip          no server: a random partner, or a few random values of all, averaged
    decoupled_momentum  momentum of which only the fast part is sent
    muon            an optimizer whose steps are orthogonal matrices
    zeroth_order    seeds and scalars in place of gradients

Plain federated averaging is in `fltoolkit.federated`; docs/federated.md compares all methods.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
