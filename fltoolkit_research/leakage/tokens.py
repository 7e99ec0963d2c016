"""Which tokens crossed the cut: inputs of a language model, guessed from its activations.

Here: the nearest embedding, and a trained probe or small network.

The labels of a language model are its inputs, shifted by one place. So the last party of a plain
cut, which has the labels, needs no attack: only a U-shape leaves something to attack (notebook 12).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fltoolkit.models import seeded
from fltoolkit.shapes import Float, Int64
from fltoolkit_research.leakage._fitting import fitted, mean_and_scale, parted
from fltoolkit_research.leakage.dependence import rows_of


class TokenDecoder(NamedTuple):
    """A trained attacker on tokens; see `train_token_decoder`."""

    mean: Tensor  # of the auxiliary activations ...
    scale: Tensor  # ... and what they are divided by
    network: nn.Module  # from a place and its neighbours to a score for each token
    reach: int  # how many neighbours on each side it sees
    validation: float  # share of right guesses on auxiliary windows it was not fitted on

    @torch.no_grad()
    def __call__(self, h: Float[Tensor, "samples places width"]) -> Int64[Tensor, "samples places"]:
        """The most likely token of each place."""
        rows_of("h", h)  # raises ValueError for NaN
        return _scores(self.network, (h - self.mean) / self.scale, self.reach).argmax(dim=2)


def train_token_decoder(
    h: Float[Tensor, "samples places width"],
    tokens: Int64[Tensor, "samples places"],
    *,
    num_tokens: int,
    seed: int,
    hidden: int = 0,
    reach: int = 0,
    max_epochs: int = 30,
) -> TokenDecoder:
    """Learn to guess each place's token from the activations at it: the token inversion attack.

    As in `train_decoder`, the attacker has texts of the same kind as the victim's, and what crossed
    for each. A fifth of the windows is kept for validation. A linear probe, or with ``hidden`` a
    network with one hidden layer, learns the token of a place by Adam (lr=0.01) from the
    activations there and at ``reach`` places on each side. Its first scores are the logarithms of
    how often each token occurs, and the weights of the epoch with the least validation loss are
    kept: an attacker who receives only noise guesses the most frequent token.

    Args:
        h: what crossed for each auxiliary window, as it was decoded; of `overhear`,
            ``.h.unflatten(1, tokens.shape[1:] + (-1,))``.
        tokens: the auxiliary windows.
        num_tokens: size of the alphabet.
        seed: of weights, order and validation windows.
        hidden: width of the hidden layer; 0: a linear probe.
        reach: neighbours on each side; attention copies earlier tokens into later places.
        max_epochs: training stops after so many epochs, or after 4 in a row without improvement.

    Raises:
        ValueError: fewer than 10 windows, shapes that do not belong together, or values that are
            NaN or infinite.
    """
    rows_of("h", h)  # raises ValueError for NaN
    if h.shape[:2] != tokens.shape or len(h) < 10:
        raise ValueError(
            f"activations {list(h.shape)} and tokens {list(tokens.shape)}: need [samples, places, "
            "width] and [samples, places], and 10 samples or more"
        )
    samples = fit, kept, _ = parted(len(h), seed)
    mean, scale = mean_and_scale(h[fit].flatten(0, 1))
    z = (h - mean) / scale
    width = z.shape[2] * (2 * reach + 1)
    counts = torch.bincount(tokens[fit].flatten(), minlength=num_tokens).float()
    with seeded(seed):
        network = _network(width, hidden, ((counts + 0.5) / (counts + 0.5).sum()).log())

    def loss(rows: Tensor) -> Tensor:
        scores = _scores(network, z[rows], reach).flatten(0, 1)
        return nn.functional.cross_entropy(scores, tokens[rows].flatten())

    fitted(network, loss, samples, lr=1e-2, patience=4, max_epochs=max_epochs, batch_size=32)
    decoder = TokenDecoder(mean, scale, network, reach, 0.0)
    right = float((decoder(h[kept]) == tokens[kept]).double().mean())
    return decoder._replace(validation=right)


def _network(width: int, hidden: int, scores: Tensor) -> nn.Sequential:
    """A layer or two that give each token a score, and at first the same ``scores`` everywhere."""
    first = [nn.Linear(width, hidden), nn.ReLU()] if hidden else []
    last = nn.Linear(hidden or width, len(scores))
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(scores)
    return nn.Sequential(*first, last)


def nearest_tokens(
    h: Float[Tensor, "samples places width"],
    table: Float[Tensor, "tokens width"],
    *,
    positions: Float[Tensor, "context width"] | None = None,
) -> Int64[Tensor, "samples places"]:
    """For each place, the token whose embedding is nearest: the attack of a party with the weights.

    A party that has the embedding table, such as that of a public model, needs no training.
    Distances are Euclidean.

    Args:
        h: what crossed.
        table: the embeddings of all tokens.
        positions: the embeddings of the places, if the model adds them; they are subtracted first.

    >>> table = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> nearest_tokens(torch.tensor([[[0.1, 0.8], [0.7, 0.2]]]), table).tolist()
    [[0, 1]]
    """
    rows_of("h", h)  # raises ValueError for NaN
    if positions is not None:
        h = h - positions[: h.shape[1]]
    return torch.cdist(h, table.to(h)[None]).argmin(dim=2)


def unigram_guess(
    tokens: Int64[Tensor, "_ ..."], known: Int64[Tensor, "_ ..."], *, num_tokens: int
) -> float:
    """The null model: the share of ``tokens`` that are the most frequent token of ``known``.

    An attacker who receives nothing and always guesses the same is right so often.

    >>> unigram_guess(torch.tensor([2, 2, 0, 1]), torch.tensor([2, 2, 1]), num_tokens=3)
    0.5
    """
    most = torch.bincount(known.flatten(), minlength=num_tokens).argmax()
    return float((tokens == most).double().mean())


def _scores(network: nn.Module, z: Tensor, reach: int) -> Tensor:
    """Scores [samples, places, tokens]; beyond the ends of a window a neighbour is zeros."""
    size = z.shape[1]
    padded = nn.functional.pad(z, (0, 0, reach, reach))
    seen = torch.cat([padded[:, k : k + size] for k in range(2 * reach + 1)], dim=2)
    scores: Tensor = network(seen)
    return scores
