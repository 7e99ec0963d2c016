"""More codecs, for the gallery and for experiments; `fltoolkit.codecs` has those of the notebooks.

Read them in any order; each file stands alone.

    scales      quantizers around zero with a scale
    codebooks   quantizers whose levels follow the data
    rotate      a random rotation before quantization
    sparsifiers relatives of top-k: random places, signs only
    same_mask   gradients at the places of the activations that they answer
    narrow      whole numbers in as few bits as their range needs
    contexts    symbols and places by what rows, columns and neighbours say of them
    difference  only what has changed since the last message
    compile     a command: builds loops in C for rotations and entropy coders

`contexts` stands on `_outer_products` (what rows and columns tell of a value) and `_lanes` (many
coders in step).
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
