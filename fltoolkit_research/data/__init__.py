"""Data sets of text.

    text        the characters of Shakespeare's plays, by role

Other data sets are in `fltoolkit.data`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
