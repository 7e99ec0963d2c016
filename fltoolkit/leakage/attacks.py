"""What leaks: how much of the inputs and labels the receiving party can reconstruct.

Here: an attack that learns to reconstruct inputs from what crossed the cut, attacks on labels by
their gradients, and two ways to come by the attacker's data honestly: a `Listener` on the channel,
and `overhear`. Not here: distance correlation (distance_correlation.py), defences (defence.py).
Notebook 08 derives all of it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from fltoolkit.channel import Arrival, Channel
from fltoolkit.codecs.base import Codec
from fltoolkit.evaluation import predict
from fltoolkit.leakage.distance_correlation import check_pair, rows_of
from fltoolkit.links import KINDS, Link
from fltoolkit.models import seeded
from fltoolkit.party import Party
from fltoolkit.trees import Tree

__all__ = [
    "Decoder",
    "Heard",
    "Listener",
    "Overheard",
    "auc",
    "direction_aucs",
    "explained_variance",
    "norm_aucs",
    "overhear",
    "train_decoder",
]

# ------------------------------------------------------------------------- what an attacker gets


class Heard(NamedTuple):
    """One message as its receiver decoded it."""

    step: int
    sender: str
    receiver: str
    kind: str
    tree: Tree


class Listener(Channel):
    """A channel that keeps what arrives: all that an honest but curious receiver has.

    It carries and counts messages as `Channel` does, and training through it gives the same bits.
    ``heard`` keeps one copy of each message of the chosen kinds, which needs memory.

    >>> listener = Listener(kinds=["gradients"])
    >>> received = listener.send("bob", "alice", "gradients", {"g": torch.ones(2)})
    >>> listener.heard[0].sender, listener.heard[0].tree
    ('bob', {'g': tensor([1., 1.])})
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | None = None,
        *,
        kinds: Sequence[str] = ("activations", "gradients"),
    ):
        super().__init__(codecs)
        if isinstance(kinds, str) or (unknown := set(kinds) - set(KINDS)):
            wrong = repr(kinds) if isinstance(kinds, str) else f"{sorted(unknown)} in it"
            raise ValueError(f"kinds: {wrong}; give a list of kinds out of {', '.join(KINDS)}")
        self.kinds = tuple(kinds)
        self.heard: list[Heard] = []

    def cross(self, link: Link, tree: Tree) -> Arrival:
        """As in `Channel`; what arrived is kept."""
        arrival = super().cross(link, tree)
        if link.kind in self.kinds:  # a copy: training asks what arrived for gradients, in place
            kept = {name: tensor.detach().clone() for name, tensor in arrival.tree.items()}
            self.heard.append(Heard(self.step, *link, kept))
        return arrival


class Overheard(NamedTuple):
    """What crossed a cut for some samples; see `overhear`."""

    h: Float[Tensor, "samples values"]  # as decoded
    mask: Float[Tensor, "samples values"]  # 1 where a value was sent, 0 where none: the positions
    nbytes: int  # of all messages


def overhear(
    party: Party,
    x: Shaped[Tensor, "samples ..."],
    channel: Channel,
    *,
    receiver: str = "bob",
    batch_size: int = 64,
) -> Overheard:
    """Send a trained party's activations of ``x`` through ``channel``, and keep what arrives.

    In evaluation mode, in batches, nothing is learned. Positions come from the message itself: a
    zero that was sent counts as sent. Draws of the codecs go on from call to call, so hand the same
    channel to the call for the attacker's own samples and to the call for the victims'.
    """
    if not len(x):
        raise ValueError("no samples to listen to: x is empty")
    hs, masks, before = [], [], channel.nbytes()
    for rows in x.split(batch_size):
        sent = {"h": predict([party], rows)}
        got, sent_places = channel.send_masked(party.name, receiver, "activations", sent)
        hs.append(got["h"].flatten(1))
        mask = sent_places.get("h")
        masks.append(torch.ones_like(hs[-1]) if mask is None else mask.float().flatten(1))
    return Overheard(torch.cat(hs), torch.cat(masks), channel.nbytes() - before)


# ----------------------------------------------------------------- the attack that reconstructs


class Decoder(NamedTuple):
    """A trained attacker: ``decoder(h)`` gives its guess at the inputs; see `train_decoder`."""

    mean: Tensor  # of the auxiliary h ...
    scale: Tensor  # ... and what they are divided by
    linear: Tensor  # ridge regression, [values, pixels]
    network: nn.Module  # what is added to it
    mean_input: Tensor  # the mean auxiliary input: the best guess of who hears nothing
    validation: float  # explained variance on the auxiliary samples it was not fitted on

    @torch.no_grad()
    def __call__(self, h: Float[Tensor, "samples ..."]) -> Float[Tensor, "samples ..."]:
        """Inputs, as well as they can be told from ``h``."""
        z = (rows_of("h", h) - self.mean) / self.scale
        guess = self.mean_input.flatten() + z @ self.linear + self.network(z)
        return guess.unflatten(1, self.mean_input.shape)


def train_decoder(
    h: Float[Tensor, "samples ..."],
    x: Float[Tensor, "samples ..."],
    *,
    seed: int,
    width: int = 256,
    max_epochs: int = 100,
    patience: int = 8,
    lr: float = 1e-3,
    batch_size: int = 64,
) -> Decoder:
    """Learn to reconstruct inputs from what crossed: the learned inversion attack.

    The attacker has auxiliary inputs x like the victims', none of them a victim's, and what crossed
    for each: it can query the client's part (a client that plays along can; whoever is handed the
    model in a relay can, too). It does not know the weights.

    1. a fifth of the samples is kept for validation
    2. ridge regression from h to x, its strength chosen on the validation samples
    3. a network with one hidden layer learns what is still missing, from output 0, by Adam; the
       epoch that is best on the validation samples counts, and the start is one of them

    So an attacker who receives only noise guesses the mean input, which explains 0 % and not less.
    Source: the "inverse-network" (black-box setting) of He, Zhang and Lee 2019, *Model inversion
    attacks against collaborative inference*; the ridge regression is ours, and helps where the
    auxiliary samples are few. A weak attacker proves nothing: a strong one may get more.

    Args:
        h: what crossed for each auxiliary sample, as it was decoded: `Overheard.h` or ``.mask``.
        x: the auxiliary inputs.
        seed: of weights, order and validation samples.
        width: of the hidden layer.
        max_epochs: at most so many.
        patience: stop after so many epochs that were not better.
        lr: of Adam.
        batch_size: samples a step.

    Raises:
        ValueError: fewer than 10 samples, not as many h as x, or values that are NaN or infinite.
    """
    h, shape = rows_of("h", h).float(), x.shape[1:]
    x = rows_of("x", x).float()
    check_pair(h, x, 10)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(h), generator=generator)
    kept, fit = order[: len(h) // 5], order[len(h) // 5 :]
    mean, spread, mean_input = h[fit].mean(0), h[fit].std(0), x[fit].mean(0)
    # a value that hardly ever moves must not become a giant when it does
    scale = (spread**2 + 0.01 * (spread**2).mean() + 1e-12).sqrt()
    z, target = (h - mean) / scale, x - mean_input
    linear = _ridge(z[fit], target[fit], z[kept], target[kept])
    left = target - z @ linear
    with seeded(seed):
        network = nn.Sequential(
            nn.Linear(z.shape[1], width), nn.ReLU(), nn.Linear(width, x.shape[1])
        )
    for param in network[2].parameters():
        nn.init.zeros_(param)
    optimizer = torch.optim.Adam(network.parameters(), lr=lr)

    def missing() -> float:
        with torch.no_grad():
            return float((network(z[kept]) - left[kept]).square().mean())

    best, state, waited = missing(), _copied(network), 0
    for _ in range(max_epochs):
        for rows in fit[torch.randperm(len(fit), generator=generator)].split(batch_size):
            optimizer.zero_grad()
            (network(z[rows]) - left[rows]).square().mean().backward()
            optimizer.step()
        waited += 1
        if (now := missing()) < best:
            best, state, waited = now, _copied(network), 0
        if waited == patience:
            break
    network.load_state_dict(state)
    variance = float(target[kept].square().mean())
    explained = 1 - best / variance if variance > 0 else 0.0
    return Decoder(mean, scale, linear, network, mean_input.reshape(shape), explained)


def explained_variance(
    guess: Float[Tensor, "samples ..."],
    x: Float[Tensor, "samples ..."],
    mean_input: Float[Tensor, "..."],
) -> float:
    """1 - squared error of ``guess`` / squared error of ``mean_input``: 1 is perfect, 0 is nothing.

    Below 0: the guess is worse than the mean of the attacker's own images.

    >>> x = torch.tensor([[0.0], [2.0]])
    >>> explained_variance(torch.tensor([[0.0], [1.0]]), x, torch.tensor([1.0]))
    0.5
    """
    guess, x = rows_of("guess", guess).double(), rows_of("x", x).double()
    if guess.shape != x.shape or mean_input.numel() != x.shape[1]:
        raise ValueError(
            f"guess {tuple(guess.shape)}, x {tuple(x.shape)} and a mean input of "
            f"{mean_input.numel()} values do not belong together"
        )
    variance = float((x - mean_input.flatten().double()).square().mean())
    if not variance > 0:
        raise ValueError("every input is the mean input: there is no variance to explain")
    return 1 - float((guess - x).square().mean()) / variance


def _ridge(z: Tensor, x: Tensor, z_kept: Tensor, x_kept: Tensor) -> Tensor:
    """Weights of the ridge regression that is best on the kept samples; 0 is one of them."""
    gram, along = ((z.T @ right / len(z)).double() for right in (z, x))
    eye = torch.eye(len(gram), dtype=gram.dtype)
    weights = [torch.zeros(z.shape[1], x.shape[1])]
    for strength in 10.0 ** torch.arange(-4, 3):
        weights.append(torch.linalg.solve(gram + strength * eye, along).float())
    return min(weights, key=lambda w: float((z_kept @ w - x_kept).square().mean()))


def _copied(module: nn.Module) -> Tree:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


# ------------------------------------------------------------------- labels, from their gradients


def auc(scores: Float[Tensor, " samples"], positive: Bool[Tensor, " samples"]) -> float:
    """Area under the ROC curve: how often a positive sample scores higher than a negative one.

    0.5 is chance, 1 tells them apart, 0 does so upside down; a tie counts half.

    >>> auc(torch.tensor([0.1, 0.4, 0.4, 0.9]), torch.tensor([False, False, True, True]))
    0.875
    """
    scores = rows_of("scores", scores[:, None])[:, 0].double()
    if positive.dtype != torch.bool or positive.shape != scores.shape:
        raise ValueError(
            f"positive is {positive.dtype} of shape {tuple(positive.shape)}: pass a bool for each "
            f"of the {len(scores)} scores, e.g. y == 1"
        )
    if not 0 < int(positive.sum()) < len(scores):
        raise ValueError(f"{int(positive.sum())} of {len(scores)} are positive: need both kinds")
    others = scores[~positive].sort().values
    below = torch.searchsorted(others, scores[positive])
    upto = torch.searchsorted(others, scores[positive], right=True)
    return float((below + upto).double().mean()) / (2 * len(others))


def norm_aucs(g: Float[Tensor, "samples ..."], y: Int[Tensor, " samples"]) -> dict[int, float]:
    """For each class, how well the length of a sample's gradient tells it from the others.

    In an imbalanced binary task, look at the rare class: its samples are predicted worst, so their
    gradients are longest (Li et al. 2021, arXiv 2102.08504, section 3.2: the norm attack). Of many
    balanced classes the mean over the classes is 0.5 whatever leaks, because each pair of samples
    counts once for and once against: look at the single classes.

    Args:
        g: gradients at the cut, a row a sample, as `Listener.heard` has them. If batches differ in
            size, multiplied by it: a mean loss divides by it.
        y: the labels, known to the experimenter only.
    """
    length = rows_of("g", g).double().norm(dim=1)
    return {label: auc(length, y == label) for label in _classes(y)}


def direction_aucs(
    g: Float[Tensor, "samples ..."], y: Int[Tensor, " samples"], *, num_known: int = 1
) -> dict[int, float]:
    """For each class, how well the direction of the gradient tells it from the others.

    The attacker knows the labels of the first ``num_known`` samples of the class and scores every
    other sample by its largest cosine with one of them. In a network whose top is one layer the
    gradient points away from the label's weights, so this finds nearly all labels.
    Source: Li et al. 2021, arXiv 2102.08504, section 3.2 (the direction attack).
    """
    unit = nn.functional.normalize(rows_of("g", g).double(), dim=1)
    found = {}
    for label in _classes(y):
        known = (y == label).nonzero()[:num_known, 0]
        others = torch.ones(len(y), dtype=torch.bool)
        others[known] = False
        if not num_known >= 1 or not bool((y[others] == label).any()):
            raise ValueError(f"class {label}: num_known={num_known} must leave one to be found")
        found[label] = auc((unit[others] @ unit[known].T).amax(1), y[others] == label)
    return found


def _classes(y: Tensor) -> list[int]:
    if len(classes := y.unique().tolist()) < 2:
        raise ValueError(f"labels {classes}: need samples of two classes at least")
    return classes
