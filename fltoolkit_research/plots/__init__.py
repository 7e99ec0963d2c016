"""Figures of sweeps and of experiments.

    placing         places for words beside marks
    points          points with their names
    fronts          accuracy over bytes for a whole sweep

Figures of single histories are in `fltoolkit.plots`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
