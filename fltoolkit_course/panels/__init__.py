"""Panels with sliders for the notebooks.

    bits        one slider, one curve, one counter of bytes
    owners      ten owners, alone and together, round by round
    tradeoff    the runs of a sweep on a Pareto plot
    leakage     what an attacker sees behind a codec or noise

Scripts can call the functions behind the panels, too.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
