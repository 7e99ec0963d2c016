"""More codecs: rotations, low rank, narrow whole numbers.

    rotate      a random rotation before quantization
    lowrank     a matrix as the product of two thin ones, rows in a fixed subspace
    narrow      whole numbers in as few bits as their range needs
    contexts    symbols and places by what rows, columns and neighbours say of them
    deflate     general compressors, for comparison
    same_mask   gradients at the places of the activations that they answer

The codecs of the course are in `fltoolkit.codecs`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
