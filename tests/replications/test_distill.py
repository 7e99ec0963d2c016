"""Distilled samples: the kernel learns more from them than from as many prototypes."""

import pytest
import torch

from experiments.replications import distill
from experiments.replications.distill import RIDGE, distilled, kernel, prototypes
from fltoolkit import load
from fltoolkit.codecs import Quantize
from fltoolkit_research import Experiment, run
from fltoolkit_research.pooled import lossless


def right(x, y, data):
    """The share of test images that kernel ridge regression on (x, y) gets right."""
    inner = kernel(x, x)
    inner = inner + RIDGE * inner.diagonal().mean() * torch.eye(len(x))
    weights = torch.linalg.solve(inner, torch.eye(10)[y] - 0.1)
    guess = (kernel(data.x_test, x) @ weights).argmax(dim=1)
    return (guess == data.y_test).float().mean().item()


@pytest.mark.slow
def test_the_kernel_learns_more_from_them_than_from_prototypes():
    data = load("digits").flat()
    plain = prototypes(data.x_train, data.y_train, 10, seed=0)
    made_up = distilled(data.x_train, data.y_train, 10, seed=0)
    assert torch.equal(plain[1], made_up[1])
    assert made_up[0].shape == plain[0].shape
    assert right(*made_up, data) > right(*plain, data) + 0.03
    again, _ = distilled(data.x_train, data.y_train, 10, seed=0)
    assert torch.equal(again, made_up[0])


@pytest.mark.later
def test_prototypes_stand_for_their_class():
    data = load("digits").flat()
    x, y = data.x_train, data.y_train
    centres, classes = prototypes(x, y, 50, seed=0)
    assert 45 <= len(classes) <= 55
    assert set(classes.tolist()) == set(range(10))
    for centre, label in zip(centres, classes, strict=True):  # nearest among the class's own means
        own = x[y == label].mean(dim=0)
        assert (centre - own).norm() < (centre - x[y != label].mean(dim=0)).norm() + 8
    assert torch.equal(centres, prototypes(x, y, 50, seed=0)[0])
    assert len(prototypes(x[:20], y[:20], 20, seed=0)[0]) == 20
    with pytest.raises(ValueError, match="class numbers"):
        prototypes(x, x, 3, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("choose", [prototypes, distilled])
def test_an_experiment_sends_fewer_samples(choose):
    codecs = {"samples": lossless(Quantize(4)), "labels": lossless()}
    how = {"num_samples": 200, "num_clients": 4, "rounds": 2, "lr": 0.1, "batch_size": 20}
    few = Experiment("pooled", codecs=codecs, settings={"num_kept": 80, "choose": choose}, **how)
    assert few.to_dict()["settings"]["choose"] == choose.__name__
    assert Experiment.from_dict(few.to_dict(), modules=[distill]) == few
    last = run(few)[-1]
    assert 0 < last["nbytes"] < run(Experiment("pooled", codecs=codecs, **how))[-1]["nbytes"]
    if choose is prototypes:  # owners of 50 images are too small for distilling
        assert last["accuracy"] > 0.3
