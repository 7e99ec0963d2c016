"""What a curious party learns from the messages at the cut layer, and two defences.

    distance_correlation    how much two sets of vectors depend on each other
    attacks                 guesses of inputs and labels from activations and gradients
    tokens                  guesses of characters from a language model's activations
    updates                 guesses of inputs and of members from a model's updates
    defence                 noise, and training that leaks less

Notebook 08 derives all of these but the guesses of characters, which notebook 12 derives.
"""

from fltoolkit.leakage.attacks import (
    Listener,
    auc,
    direction_aucs,
    explained_variance,
    norm_aucs,
    overhear,
    train_decoder,
)
from fltoolkit.leakage.defence import Noise, NoPeek
from fltoolkit.leakage.distance_correlation import (
    corrected_distance_correlation,
    distance_correlation,
)
from fltoolkit.leakage.tokens import nearest_tokens, train_token_decoder, unigram_guess
from fltoolkit.leakage.updates import inputs_from_update, match, membership_auc

__all__ = [
    "Listener",
    "NoPeek",
    "Noise",
    "auc",
    "corrected_distance_correlation",
    "direction_aucs",
    "distance_correlation",
    "explained_variance",
    "inputs_from_update",
    "match",
    "membership_auc",
    "nearest_tokens",
    "norm_aucs",
    "overhear",
    "train_decoder",
    "train_token_decoder",
    "unigram_guess",
]
