"""Split learning: parties that each hold a part of one network train it together.

The bottom is the part of the network from the samples to the cut, the top the part from the cut to
the loss, and the label party is who has the top and computes the loss, often with its own labels.
Every protocol is a short function that follows its figure; all data is sent through a `Channel`.

    chain         one client and one label party, several hops, U-shaped
    vertical      parties that hold different columns of the same samples
    clients       several clients: the bottom is handed on (relay), or averaged (SplitFed)
    gates         when a client may be silent: states A, B and C
    cache         the label party's memory of activations
    uploads       which activations a client sends: all, those that changed, or their differences
    asynchronous  training by a gate, with one client or several
    variants      a relative, to compare with

Notebooks 01 to 03 derive it.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
