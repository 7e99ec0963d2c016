"""More ways to train together: with few messages, among workers.

    privacy         a mean of clipped updates with Gaussian noise
    exchange        an average among workers: through a server, all to all, or in a ring
    data_parallel   gradients averaged at every step; what workers remember
    local_steps     many local steps, then an average of how far workers came
    muon            an optimizer whose steps are orthogonal matrices
    sums            no training: each owner sends sums of fixed features, once

Plain federated averaging is in `fltoolkit.federated`; docs/federated.md compares all methods.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
