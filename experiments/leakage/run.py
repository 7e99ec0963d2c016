"""One training run through a channel that is listened to, and the attacks after it."""

import base64
import time
from functools import lru_cache
from statistics import mean

import torch
from torch import Tensor, nn

from experiments.leakage.settings import CLASS_MEAN, NEAREST, POSITIVE, PRIOR, Setting, Task
from experiments.runs import Result
from fltoolkit import SGD, Batches, Channel, Party, evaluate, forward, load, splitnn_mlp
from fltoolkit.data import Samples
from fltoolkit.split import train_split
from fltoolkit_research import leakage


@lru_cache(maxsize=1)
def dataset(name: str, seed: int = 0) -> Samples:
    """The data, flat; the seed draws the writers of digits whose images are the test."""
    return load(name, strangers=seed if name == "digits" else None).flat()


def run(task: Task, setting: Setting, seed: int) -> Result:
    """Train once through a listened-to channel, then attack; all that the tables need.

    A run that diverges ends there, with ``diverged`` (the step) in place of results.
    """
    start, data = time.perf_counter(), dataset(task.data, seed)
    order = torch.randperm(len(data.y_train), generator=torch.Generator().manual_seed(seed))
    own, auxiliary = order[: task.num_own], order[task.num_own :][: task.num_auxiliary]
    about = {
        **{"key": setting.key(task, seed), "data": task.data, "part": setting.part},
        **{"name": setting.name, "seed": seed},
    }
    if setting.part == PRIOR:
        some = slice(task.num_victims)
        x, y = data.x_train[auxiliary], data.y_train[auxiliary]
        found = prior(x, y, data.x_test[some], data.y_test[some])
        return about | {"explained_variance": found[setting.name], "seconds": _since(start)}
    labels, test_labels = data.y_train[own], data.y_test
    if setting.binary:
        labels, test_labels = (labels == POSITIVE).long(), (test_labels == POSITIVE).long()
    num_classes = 2 if setting.binary else data.num_classes
    model = splitnn_mlp(data.x_train.shape[1], num_classes, seed=seed)
    bottom, top = model[:4], model[4:]
    alice = leakage.NoPeek(
        "alice", bottom, SGD(bottom.parameters(), lr=task.lr), weight=setting.nopeek
    )
    bob = Party("bob", top, SGD(top.parameters(), lr=task.lr), nn.NLLLoss())

    batches = Batches(data.x_train[own], labels, task.batch_size, seed=seed)
    channel = leakage.Listener(setting.codecs, kinds=["gradients"])
    by_epoch = []
    for epoch in range(task.epochs):
        seen = list(batches.epoch(epoch))
        try:
            for _ in train_split([alice, bob], seen, channel):
                pass
        except (ValueError, FloatingPointError) as error:  # of a codec; of a party
            if "diverged" not in str(error):
                raise
            return about | {"diverged": channel.step, "seconds": _since(start)}
        by_epoch.append(_label_aucs(channel, torch.cat([y for _, y in seen]), setting.binary))
    sent = task.epochs * task.num_own

    x, victims = data.x_train[auxiliary], data.x_test[: task.num_victims]
    attack = Channel(setting.codecs)
    heard, held_out = leakage.overhear(alice, x, attack), leakage.overhear(alice, victims, attack)
    decoder = leakage.train_decoder(heard.h, x, seed=seed, max_epochs=task.attack_epochs)
    guess = decoder(held_out.h)
    positions = None
    if not bool(held_out.mask.all()):
        only = leakage.train_decoder(heard.mask, x, seed=seed, max_epochs=task.attack_epochs)
        positions = leakage.explained_variance(only(held_out.mask), victims, only.mean_input)
    result = {
        **about,
        **evaluate([alice, bob], data.x_test, test_labels, through=setting.in_use or setting.up),
        "nbytes_up": channel.nbytes(kind="activations") / sent,
        "nbytes_down": channel.nbytes(kind="gradients") / sent,
        "dcor": leakage.distance_correlation(held_out.h, victims),
        "corrected_dcor": leakage.corrected_distance_correlation(held_out.h, victims),
        "explained_variance": leakage.explained_variance(guess, victims, decoder.mean_input),
        "positions": positions,
        "norm_auc": [round(norm, 4) for norm, _ in by_epoch],
        "direction_auc": [round(direction, 4) for _, direction in by_epoch],
    }
    if setting.binary:
        scores = forward([alice, bob], data.x_test, through=setting.up)
        result["task_auc"] = leakage.auc(scores[:, 1], test_labels == 1)
    if seed == 0 and not setting.binary:
        shown = torch.tensor([int((data.y_test == digit).nonzero()[0]) for digit in range(10)])
        result["shown"] = _picture(guess[shown], victims)
        result["originals"] = _picture(victims[shown], victims)
    return result | {"seconds": _since(start)}


def prior(x: Tensor, y: Tensor, victims: Tensor, labels: Tensor) -> dict[str, float]:
    """The explained variance of the victims' images without any message of theirs.

    ``x`` and ``y`` are the attacker's own; the victims' ``labels`` a label party has.
    """
    means = torch.stack([x[y == label].mean(0) for label in range(int(y.max()) + 1)])
    guesses = {CLASS_MEAN: means[labels], NEAREST: x[torch.cdist(victims, x).argmin(1)]}
    return {name: leakage.explained_variance(g, victims, x.mean(0)) for name, g in guesses.items()}


def _since(start: float) -> float:
    return round(time.perf_counter() - start, 1)


def _label_aucs(channel: leakage.Listener, y: Tensor, binary: bool) -> tuple[float, float]:
    """How well length and direction of the gradients heard since last time give labels away.

    In the binary task that of the rare class; else the mean over classes, the lengths' either way
    round (0.5 is chance for both).
    """
    g = torch.cat([heard.tree["g"] * len(heard.tree["g"]) for heard in channel.heard])
    channel.heard.clear()
    norms, directions = leakage.norm_aucs(g, y), leakage.direction_aucs(g, y)
    if binary:
        return norms[1], directions[1]
    return mean(max(a, 1 - a) for a in norms.values()), mean(directions.values())


def _picture(x: Tensor, scale: Tensor) -> str:
    """Pixels as bytes, 0 the least and 255 the largest of ``scale``."""
    lo, hi = scale.min(), scale.max()
    pixels = ((x - lo) / (hi - lo) * 255).clamp(0, 255).round().byte()
    return base64.b64encode(pixels.numpy().tobytes()).decode()


def summary(result: Result) -> str:
    """The main results in one line."""
    if "diverged" in result:
        return f"diverged at step {result['diverged']}"
    if result["part"] == PRIOR:
        return f"explained variance {result['explained_variance']:.3f}"
    return (
        f"{100 * result['accuracy']:6.2f} % {result['nbytes_up']:7.1f} B up, explained "
        f"variance {result['explained_variance']:.3f}"
    )
