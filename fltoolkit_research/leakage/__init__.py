"""What a curious party learns from the messages at the cut layer, and two defences.

    dependence  how much two sets of vectors depend on each other
    attacks     guesses of inputs and labels from activations and gradients
    tokens      guesses of characters from a language model's activations
    defence     noise, and training that leaks less

`_fitting` trains the networks of the attacks. Notebook 08 derives all of these but the guesses of
characters, which notebook 12 derives.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
