"""Attacks: how much of the inputs and labels the receiving party can reconstruct.

Here: inputs reconstructed from what crossed the cut, labels guessed from gradients, and two ways to
collect what the attacker receives. Notebook 08 derives all attacks.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fltoolkit.channel import Channel, Delivery
from fltoolkit.codecs.base import Codec
from fltoolkit.evaluation import forward
from fltoolkit.links import Link, check_kind
from fltoolkit.models import seeded
from fltoolkit.party import Party
from fltoolkit.shapes import Bool, Float, Int, Shaped
from fltoolkit.trees import Tree
from fltoolkit_research.leakage._fitting import fitted, mean_and_scale, parted
from fltoolkit_research.leakage.dependence import check_pair, rows_of

WIDTH, BATCH_SIZE = 256, 64  # of the attacker's hidden layer; samples in a message and in a step

# ------------------------------------------------------------------------- what an attacker gets


class Heard(NamedTuple):
    """One message as its receiver decoded it; `Listener` collects them."""

    step: int
    sender: str
    receiver: str
    kind: str
    tree: Tree


class Listener(Channel):
    """A channel that keeps a copy of what arrives, as an honest but curious receiver can do.

    Training through it gives the same bits. ``heard`` grows by each message of the chosen kinds.

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
        for kind in kinds:
            check_kind(kind)
        self.kinds = tuple(kinds)
        self.heard: list[Heard] = []

    def cross(self, link: Link, tree: Tree) -> Delivery:
        """Carry a message as `Channel` does, and keep a copy of what arrived."""
        arrival = super().cross(link, tree)
        if link.kind in self.kinds:  # a copy, because training changes the tensors that arrived
            kept = {name: tensor.detach().clone() for name, tensor in arrival.tree.items()}
            self.heard.append(Heard(self.step, *link, kept))
        return arrival


class Overheard(NamedTuple):
    """What crossed a cut for some samples; `overhear` returns it."""

    h: Float[Tensor, "samples values"]  # the decoded activations
    mask: Float[Tensor, "samples values"]  # 1 where a value was sent, 0 where none was sent
    nbytes: int  # the bytes of all messages together


def overhear(
    party: Party,
    x: Shaped[Tensor, "samples ..."],
    channel: Channel,
    *,
    receiver: str = "bob",
) -> Overheard:
    """Send a trained party's activations of ``x`` through ``channel``, and keep what arrives.

    The party learns nothing. The mask is read from the message, so a zero that was sent counts.
    Codecs that draw random numbers continue from call to call: pass the same channel for the
    attacker's own samples and for the victims'.
    """
    if not len(x):
        raise ValueError("x is empty: pass the samples whose activations are to be sent")
    hs, masks, before = [], [], channel.nbytes()
    for rows in x.split(BATCH_SIZE):
        sent = {"h": forward([party], rows)}
        got, sent_places = channel.send_masked(party.name, receiver, "activations", sent)
        hs.append(got["h"].flatten(1))
        mask = sent_places.get("h")
        masks.append(torch.ones_like(hs[-1]) if mask is None else mask.float().flatten(1))
    return Overheard(torch.cat(hs), torch.cat(masks), channel.nbytes() - before)


# ----------------------------------------------------------------- the attack that reconstructs


class Decoder(NamedTuple):
    """A trained attacker: ``decoder(h)`` is its guess of the inputs; `train_decoder` makes one."""

    mean: Tensor  # the mean of the auxiliary h, which is subtracted first
    scale: Tensor  # then h is divided by this
    linear: Tensor  # the weights of the ridge regression, [values, pixels]
    network: nn.Module  # its output is added to that of the ridge regression
    mean_input: Tensor  # the mean auxiliary input: the best guess of an attacker without messages
    validation: float  # explained variance on the auxiliary samples kept for validation

    @torch.no_grad()
    def __call__(self, h: Float[Tensor, "samples ..."]) -> Float[Tensor, "samples ..."]:
        """The guess of the inputs that belong to ``h``."""
        z = (rows_of("h", h) - self.mean) / self.scale
        guess = self.mean_input.flatten() + z @ self.linear + self.network(z)
        return guess.unflatten(1, self.mean_input.shape)


def train_decoder(
    h: Float[Tensor, "samples ..."],
    x: Float[Tensor, "samples ..."],
    *,
    seed: int,
    max_epochs: int = 100,
) -> Decoder:
    """Learn to reconstruct inputs from what crossed: the learned inversion attack.

    The attacker has auxiliary inputs x, which resemble the victims', and what crossed for each,
    because it can query the client's part of the network, whose weights it does not know.

    1. A fifth of the samples is kept for validation.
    2. A ridge regression maps h to x; its strength is chosen on the validation samples.
    3. A network with one hidden layer learns the difference that remains, from 0 on, by Adam
       (lr=0.001); the weights of the best epoch are kept, of noise the start: the mean input.

    Source: the "inverse-network" (black-box setting) of He, Zhang and Lee 2019, *Model inversion
    attacks against collaborative inference*; the ridge regression is added here. If this attack
    fails, a stronger one may still succeed.

    Args:
        h: what crossed for each auxiliary sample, as it was decoded: `Overheard.h` or ``.mask``.
        x: the auxiliary inputs.
        seed: for the first weights, the order of the samples and the choice of those kept.
        max_epochs: training stops after so many epochs, or after 8 in a row without improvement.

    Raises:
        ValueError: fewer than 10 samples, not as many h as x, or values that are NaN or infinite.
    """
    h, shape = rows_of("h", h).float(), x.shape[1:]
    x = rows_of("x", x).float()
    check_pair(h, x, 10)
    samples = fit, kept, _ = parted(len(h), seed)
    (mean, scale), mean_input = mean_and_scale(h[fit]), x[fit].mean(0)
    z, target = (h - mean) / scale, x - mean_input
    linear = _ridge(z[fit], target[fit], z[kept], target[kept])
    left = target - z @ linear
    with seeded(seed):
        network = nn.Sequential(
            nn.Linear(z.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, x.shape[1])
        )
    for param in network[2].parameters():
        nn.init.zeros_(param)

    def loss(rows: Tensor) -> Tensor:
        error: Tensor = network(z[rows]) - left[rows]
        return error.square().mean()

    how = {"max_epochs": max_epochs, "batch_size": BATCH_SIZE}
    best = fitted(network, loss, samples, lr=1e-3, patience=8, **how)
    variance = float(target[kept].square().mean())
    explained = 1 - best / variance if variance > 0 else 0.0
    return Decoder(mean, scale, linear, network, mean_input.reshape(shape), explained)


def explained_variance(
    guess: Float[Tensor, "samples ..."],
    x: Float[Tensor, "samples ..."],
    mean_input: Float[Tensor, "..."],
) -> float:
    """1 - (squared error of ``guess``) / (squared error of ``mean_input``).

    1 is a perfect reconstruction, and 0 as good as guessing the mean of the attacker's own inputs.

    >>> x = torch.tensor([[0.0], [2.0]])
    >>> explained_variance(torch.tensor([[0.0], [1.0]]), x, torch.tensor([1.0]))
    0.5
    """
    guess, x = rows_of("guess", guess).double(), rows_of("x", x).double()
    if guess.shape != x.shape or mean_input.numel() != x.shape[1]:
        raise ValueError(
            f"guess {tuple(guess.shape)}, x {tuple(x.shape)} and a mean input of "
            f"{mean_input.numel()} values do not fit together: pass as many guesses as inputs, "
            "all of the same shape"
        )
    variance = float((x - mean_input.flatten().double()).square().mean())
    if not variance > 0:
        raise ValueError("every input equals mean_input: there is no variance to explain")
    return 1 - float((guess - x).square().mean()) / variance


def _ridge(z: Tensor, x: Tensor, z_kept: Tensor, x_kept: Tensor) -> Tensor:
    """Weights of the ridge regression that is best on the kept samples. All zeros is tried too.

    Of many values per sample, the matrix of samples by samples is solved: the weights are the same.
    """
    wide = z.shape[1] > 2 * len(z)
    products = (z @ z.T, x) if wide else (z.T @ z, z.T @ x)
    gram, along = ((product / len(z)).double() for product in products)
    eye = torch.eye(len(gram), dtype=gram.dtype)
    weights = [torch.zeros(z.shape[1], x.shape[1])]
    for strength in 10.0 ** torch.arange(-4, 3):
        found = torch.linalg.solve(gram + strength * eye, along).float()
        weights.append(z.T @ found if wide else found)
    return min(weights, key=lambda w: float((z_kept @ w - x_kept).square().mean()))


# ------------------------------------------------------------------- labels, from their gradients


def auc(scores: Float[Tensor, " samples"], positive: Bool[Tensor, " samples"]) -> float:
    """Area under the ROC curve: how often a positive sample scores higher than a negative one.

    0.5 is chance. 1 means that every positive sample scores higher than every negative one, and 0
    that every positive sample scores lower. A tie counts half.

    >>> auc(torch.tensor([0.1, 0.4, 0.4, 0.9]), torch.tensor([False, False, True, True]))
    0.875
    """
    scores = rows_of("scores", scores[:, None])[:, 0].double()
    fits = positive.dtype == torch.bool and positive.shape == scores.shape
    if not fits or not 0 < int(positive.sum()) < len(scores):
        raise ValueError(
            f"positive is {positive.dtype} {list(positive.shape)} with {int(positive.sum())} True: "
            f"pass a bool for each of the {len(scores)} scores, at least one True and one False"
        )
    others = scores[~positive].sort().values
    below = torch.searchsorted(others, scores[positive])
    upto = torch.searchsorted(others, scores[positive], right=True)
    return float((below + upto).double().mean()) / (2 * len(others))


def norm_aucs(g: Float[Tensor, "samples ..."], y: Int[Tensor, " samples"]) -> dict[int, float]:
    """For each class, the AUC of finding its samples by the length of their gradients.

    In an imbalanced binary task, look at the rare class: its samples are predicted worst, so their
    gradients are longest (Li et al. 2021, arXiv 2102.08504, section 3.2: the norm attack). With
    balanced classes the mean over the classes is always 0.5: look at the single classes.

    ``g`` are gradients at the cut, one row for each sample, as `Listener.heard` has them; a mean
    loss divides by the batch size, so multiply by it if batches differ in size.
    """
    length = rows_of("g", g).double().norm(dim=1)
    return {label: auc(length, y == label) for label in y.unique().tolist()}


def direction_aucs(g: Float[Tensor, "samples ..."], y: Int[Tensor, " samples"]) -> dict[int, float]:
    """For each class, the AUC of finding its samples by the direction of their gradients.

    The attacker knows the label of the first sample of the class, and scores every other sample by
    its cosine with this one. Of a single layer on top it finds nearly all labels.
    Source: Li et al. 2021, arXiv 2102.08504, section 3.2 (the direction attack).
    """
    unit = nn.functional.normalize(rows_of("g", g).double(), dim=1)
    found = {}
    for label in y.unique().tolist():
        known = int((y == label).nonzero()[0])
        others = torch.arange(len(y)) != known
        found[label] = auc(unit[others] @ unit[known], y[others] == label)
    return found
