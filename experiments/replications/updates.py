"""What a model's update says about the samples that it was learned from.

Here: guesses of inputs from the first linear layer of an update, single or summed over owners, and
whether a sample was among those trained on. Not here: attacks on what crosses a cut (attacks.py),
and guesses that are optimized until their gradient fits (Geiping et al. 2020, arXiv 2003.14053),
which may find more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fltoolkit.evaluation import forward
from fltoolkit.party import Party
from fltoolkit.shapes import Float, Shaped
from fltoolkit.trees import Tree
from fltoolkit_research.leakage.attacks import auc
from fltoolkit_research.leakage.dependence import rows_of


def inputs_from_update(
    update: Tree, weight: str = "0.weight", bias: str = "0.bias"
) -> Float[Tensor, "guesses features"]:
    """Guess inputs from an update: for each unit of the first layer, weight update / bias update.

    A step of SGD moves a unit's weights by ``-lr * mean(d * x)`` and its bias by ``-lr * mean(d)``,
    where d is the loss's derivative at the unit. So the quotient is a mean of the inputs that the
    unit reacted to, weighted by d: the input itself, exactly, if the unit reacted to a single one.
    With many samples, steps or owners in one update it is a blurred mean. Source: Phong et al. 2018
    (IEEE TIFS 13, 5), section III; Geiping et al. 2020, arXiv 2003.14053, proposition 3.1.

    ``update`` is end minus start, or a gradient, as it arrived; ``weight`` [units, features] and
    ``bias`` [units] are the names of the first layer's entries. There is a guess for each unit
    whose bias has moved.
    """
    w, b = update[weight].detach().double(), update[bias].detach().double()
    moved = b != 0
    guesses = w[moved] / b[moved, None]
    return guesses[guesses.isfinite().all(1)].float()


class Match(NamedTuple):
    """How near the guesses come to samples; `match_samples` returns it.

    ``explained`` is 1 - (squared error of the nearest guesses) / (that of the mean input), and a
    sample for which the mean input is nearer counts with the mean input. ``recognized`` is the
    share of samples of which a guess explains at least half.
    """

    explained: float
    recognized: float


def match_samples(
    guesses: Float[Tensor, "guesses ..."],
    x: Float[Tensor, "samples ..."],
    mean_input: Float[Tensor, "..."],
) -> Match:
    """Compare each sample with the guess that is nearest to it.

    The nearest guess is chosen by looking at the sample, which an attacker cannot do. So this is an
    upper bound, and it has to stand beside its own null model: the same guesses, compared with
    samples that nobody trained on. Only what lies above that was learned about the owner's samples.

    >>> x = torch.tensor([[0.0, 0.0], [4.0, 0.0]])
    >>> match_samples(torch.tensor([[4.0, 1.0]]), x, mean_input=torch.tensor([2.0, 0.0]))
    Match(explained=0.375, recognized=0.5)
    """
    x, guesses = rows_of("x", x).double(), guesses.flatten(1).double()
    missed = (x - mean_input.flatten().double()).square().sum(1)
    nearest = missed
    if len(guesses):
        nearest = torch.cdist(x, guesses).square().amin(1).minimum(missed)
    share = 1 - nearest / missed.clamp(min=1e-12)
    return Match(1 - float(nearest.sum() / missed.sum()), float((share >= 0.5).double().mean()))


def membership_auc(
    parties: Sequence[Party],
    members: tuple[Shaped[Tensor, "samples ..."], Shaped[Tensor, " samples"]],
    strangers: tuple[Shaped[Tensor, "others ..."], Shaped[Tensor, " others"]],
) -> float:
    """How well a sample's loss tells whether it was trained on: area under the ROC curve.

    0.5 is chance, 1 means that every member has a lower loss than every stranger. The attacker
    knows the samples and the trained network, which must give log-probabilities. Source: Yeom et
    al. 2018, arXiv 1709.01604, adversary 1. Attacks with shadow models (Carlini et al. 2022, arXiv
    2112.03570) find more, above all at low rates of false alarms.
    """
    losses = []
    for x, y in (members, strangers):
        scores = forward(list(parties), x)
        losses.append(nn.functional.nll_loss(scores, y, reduction="none"))
    member = torch.cat([torch.ones(len(losses[0])), torch.zeros(len(losses[1]))]).bool()
    return auc(-torch.cat(losses), member)
