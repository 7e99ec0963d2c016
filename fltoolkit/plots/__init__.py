"""Pictures of histories, ledgers and partitions.

    style       colours, dashes, empty axes, and a description for screen readers
    figures     matplotlib figures of histories, channels and partitions

A figure function takes histories, channels or partitions, and returns matplotlib Axes. In a
notebook, `show` displays them at the end of a cell.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
