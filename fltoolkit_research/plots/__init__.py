"""Figures of sweeps.

    fronts          accuracy over bytes for a whole sweep
    report_page     one HTML file about a sweep

Figures of single histories are in `fltoolkit.plots`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
