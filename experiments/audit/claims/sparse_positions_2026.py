"""Which values are sent against what they are: which of the two tells more."""

from functools import partial

import torch
from torch import nn

from experiments.audit import rule
from experiments.audit.claim import Claim, Finding, Runs, Values, judged, spread
from experiments.leakage.settings import TASKS
from fltoolkit import SGD, Batches, Channel, Party, load, splitnn_mlp
from fltoolkit.codecs import Codec, Pipeline, TopK
from fltoolkit.split import train_split
from fltoolkit_research.codecs import RandTopK
from fltoolkit_research.leakage import explained_variance, overhear, train_decoder

CODECS = {"top-k 10%": Pipeline(TopK(0.1)), "RandTopK 10%": Pipeline(RandTopK(0.1))}


def measure(seed: int, quick: bool, *, codec: Codec) -> Values:
    """The variance of the images that a decoder explains from places, and from values, alone.

    Values alone are those of a sample sorted by size, so that nothing tells where they stood.
    """
    task = TASKS["digits" if quick else "mnist"]
    data, epochs = load(task.data).flat(), 1 if quick else task.epochs
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(seed))
    own, auxiliary = order[: task.num_own], order[task.num_own :][: task.num_auxiliary]
    model = splitnn_mlp(data.x_train.shape[1], data.num_classes, seed=seed)
    bottom, top = model[:4], model[4:]
    alice = Party("alice", bottom, SGD(bottom.parameters(), lr=task.lr))
    bob = Party("bob", top, SGD(top.parameters(), lr=task.lr), nn.NLLLoss())
    batches = Batches(data.x_train[own], data.y_train[own], task.batch_size, seed=seed)
    channel = Channel({"activations": codec})
    for _ in train_split([alice, bob], batches.epochs(epochs), channel):
        pass
    x, victims = data.x_train[auxiliary], data.x_test[: task.num_victims]
    attack = Channel({"activations": codec})
    heard, held_out = overhear(alice, x, attack), overhear(alice, victims, attack)
    found = {}
    for name, known in (
        ("places", lambda one: one.mask),
        ("values", lambda one: one.h.sort(dim=1, descending=True).values),
    ):
        attack_epochs = 1 if quick else task.attack_epochs
        decoder = train_decoder(known(heard), x, seed=seed, max_epochs=attack_epochs)
        found[name] = explained_variance(decoder(known(held_out)), victims, decoder.mean_input)
    return found


def judge(runs: Runs) -> Finding:
    """Places explain more than values, with both codecs."""
    parts, answers = [], []
    for name in runs:
        places, values = runs.all(name, "places"), runs.all(name, "values")
        more = [p - v for p, v in zip(places, values, strict=True)]
        answers.append(rule.at_least(more, 0.0))
        parts.append(
            f"{name}: places alone explain {spread(places)} of the images' variance and values "
            f"alone {spread(values)}, a difference of {spread(more, '+.2f')}"
        )
    words = (
        f"{'; '.join(parts)}. Values alone are sorted by size, so their order gives no place away."
    )
    return Finding(judged(rule.every(*answers)), words)


CLAIM = Claim(
    title="The places of a sparse message leak more than its values",
    group="split learning",
    says="Of sparse activations the places tell an attacker more about the input than the values.",
    source="Hoefler et al. 2026, on sparse collaborative inference",
    known="quoted",
    ours="MNIST, a tenth of 640 activations; a decoder that sees only places beside one that sees "
    "only values. Network, samples and attack are those of docs/leakage.md.",
    judge=judge,
    measures={name: partial(measure, codec=codec) for name, codec in CODECS.items()},
    version=2,
    seeds=range(5),
)
