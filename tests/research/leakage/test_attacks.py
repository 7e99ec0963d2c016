"""Measures of leakage against theory, attacks where the answer is known, defences by their law."""

from typing import ClassVar

import pytest
import torch
from inversion import AUXILIARY, VICTIMS, X, Y, attacked, normal, trained, two_parties
from torch import nn

from fltoolkit import Batches, Channel, split_step
from fltoolkit.codecs import Pipeline, Quantize, TopK
from fltoolkit.testing import TREES, Conformance
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.leakage import (
    Listener,
    Noise,
    NoPeek,
    auc,
    corrected_distance_correlation,
    direction_aucs,
    distance_correlation,
    explained_variance,
    norm_aucs,
    overhear,
    train_decoder,
)
from fltoolkit_research.leakage.attacks import _ridge
from fltoolkit_research.leakage.dependence import batch_distance_correlation

MEASURES = [distance_correlation, corrected_distance_correlation, batch_distance_correlation]


# ------------------------------------------------------------------------- distance correlation
@pytest.mark.parametrize("measure", MEASURES)
def test_a_linear_relation_gives_one_and_moves_change_nothing(measure):
    x = normal(50, 3)
    rotation = torch.linalg.qr(normal(3, 3, seed=1)).Q
    assert float(measure(x, 5 - 3 * x @ rotation)) == pytest.approx(1, abs=1e-9)
    y = x[:, :2] + 0.5 * normal(50, 2, seed=2)
    before = float(measure(x, y))
    assert 0.05 < before < 0.95
    assert float(measure(7 * x @ rotation + 100, y - 3)) == pytest.approx(before, abs=1e-6)
    assert float(measure(y, x)) == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_refused(measure, value):
    x = normal(10, 2)
    y = x.clone()
    y[3, 1] = value
    with pytest.raises(ValueError, match="y holds NaN or infinite"):
        measure(x, y)
    with pytest.raises(ValueError, match="10 rows and 9 rows"):
        measure(x, x[:9])
    with pytest.raises(ValueError, match=r"1 samples are too few: pass . or more"):
        measure(x[:1], x[:1])


# ------------------------------------------------------------------------------------ listening
CODECS = {"activations": Pipeline(Quantize(4), ContextEntropy()), "gradients": Pipeline(TopK(0.2))}


@pytest.mark.later
def test_listening_changes_nothing_and_hears_what_arrived():
    plain, listener = Channel(CODECS), Listener(CODECS)
    records, weights = trained(two_parties(), plain)
    heard_records, heard_weights = trained(two_parties(), listener)
    assert records == heard_records
    assert all(map(torch.equal, weights, heard_weights))
    assert plain.transfers == listener.transfers
    kinds = [message.kind for message in listener.heard]
    assert kinds == [transfer.kind for transfer in listener.transfers]
    x, _ = next(Batches(X, Y, 32, seed=0).epoch(0))
    h = two_parties()[0].forward(x)
    codec = CODECS["activations"]
    assert torch.equal(listener.heard[0].tree["h"], codec.decode(codec.encode({"h": h}))["h"])
    assert listener.heard[0][:4] == (1, "alice", "bob", "activations")


def test_what_was_heard_stays_as_it_was():
    listener = Listener(kinds=["activations"])
    got = listener.send("alice", "bob", "activations", {"h": torch.ones(3)})["h"]
    got.requires_grad_()
    with torch.no_grad():
        got.zero_()
    assert torch.equal(listener.heard[0].tree["h"], torch.ones(3))
    assert not listener.heard[0].tree["h"].requires_grad
    for wrong in ("activations", ["activation"]):
        with pytest.raises(ValueError, match="is not one of activations, gradients"):
            Listener(kinds=wrong)


def test_overheard_is_what_crossed():
    alice, _ = two_parties()
    for codec in (Pipeline(), Pipeline(TopK(0.1), Quantize(8))):
        channel = Channel({"activations": codec})
        got = overhear(alice, X, channel)
        h = alice.module(X).detach()
        by_hand = [codec.decode(codec.encode({"h": rows}))["h"] for rows in h.split(64)]
        assert torch.equal(got.h, torch.cat(by_hand))
        assert got.nbytes == channel.nbytes() == sum(t.nbytes for t in channel.transfers)
        assert [t.kind for t in channel.transfers] == 2 * ["activations"]
    assert int(got.mask.sum()) == sum(round(0.1 * rows.numel()) for rows in h.split(64))
    assert not got.h[got.mask == 0].any()
    assert torch.equal(overhear(alice, X, Channel()).mask, torch.ones(96, 640))
    with pytest.raises(ValueError, match="x is empty"):
        overhear(alice, X[:0], Channel())


# --------------------------------------------------------------------------------- the inversion
def test_an_open_link_explains_nearly_everything():
    explained, decoder, guess = attacked()
    assert explained > 0.999
    assert decoder.validation == pytest.approx(explained, abs=1e-3)
    assert guess.shape == VICTIMS.shape


@pytest.mark.later
def test_a_relation_that_is_not_linear_is_learned():
    class Factors(nn.Module):
        def forward(self, x):
            return torch.cat([x.flatten(1).abs(), x.flatten(1).sign()], dim=1)

    explained, decoder, _ = attacked(module=Factors())
    z = (Factors()(VICTIMS) - decoder.mean) / decoder.scale
    linear = (decoder.mean_input.flatten() + z @ decoder.linear).unflatten(1, (6, 6))
    assert explained > explained_variance(linear, VICTIMS, decoder.mean_input) + 0.005


def test_many_values_per_sample_give_the_same_weights_by_a_smaller_matrix(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(40, 90, generator=generator)
    x = torch.randn(40, 3, generator=generator)
    sizes, solve = [], torch.linalg.solve
    monkeypatch.setattr(torch.linalg, "solve", lambda a, b: (sizes.append(len(a)), solve(a, b))[1])
    wide = _ridge(z, x, z, x)
    gram = (z.T @ z / 40).double() + 1e-4 * torch.eye(90, dtype=torch.float64)
    torch.testing.assert_close(
        wide, solve(gram, (z.T @ x / 40).double()).float(), atol=1e-3, rtol=0
    )
    assert {*sizes} == {40}


def test_what_the_attack_refuses():
    bad = AUXILIARY.clone()
    bad[0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match="h holds NaN"):
        train_decoder(bad, AUXILIARY, seed=0)
    with pytest.raises(ValueError, match="x holds NaN"):
        train_decoder(AUXILIARY, bad, seed=0)
    with pytest.raises(ValueError, match="9 samples are too few: pass 10 or more"):
        train_decoder(AUXILIARY[:9], AUXILIARY[:9], seed=0)
    with pytest.raises(ValueError, match="guess holds NaN"):
        explained_variance(bad, AUXILIARY, AUXILIARY[0])
    with pytest.raises(ValueError, match="do not fit together"):
        explained_variance(AUXILIARY[:3], AUXILIARY, AUXILIARY[0])
    with pytest.raises(ValueError, match="no variance to explain"):
        explained_variance(VICTIMS[:1], VICTIMS[:1], VICTIMS[0])


def test_inputs_that_never_vary_end_at_their_mean():
    decoder = train_decoder(normal(20, 3), torch.ones(20, 2), seed=0)
    assert torch.allclose(decoder(normal(5, 3, seed=1).float()), torch.ones(5, 2), atol=1e-4)


# ---------------------------------------------------------------------------------------- labels
def test_auc_by_counting_pairs():
    scores, positive = normal(60).round(decimals=1), normal(60, seed=1) > 0.5
    pairs = [(p > n) + (p == n) / 2 for p in scores[positive] for n in scores[~positive]]
    assert auc(scores, positive) == pytest.approx(float(sum(pairs)) / len(pairs))
    assert auc(scores, positive) == pytest.approx(1 - auc(-scores, positive))


def test_the_rare_class_has_the_longer_gradients():
    # g = (p - y) w with p about 0.1, as after a few steps on labels of which a tenth is positive
    y = (torch.arange(200) % 10 == 0).long()
    p = 0.1 + 0.02 * normal(200).tanh()
    g = (p - y)[:, None] * normal(8, seed=1)
    assert norm_aucs(g, y) == {0: 0.0, 1: 1.0}
    assert direction_aucs(g, y) == {0: 1.0, 1: 1.0}


def test_directions():
    y = torch.arange(60) % 3
    g = torch.eye(3)[y].double() - 1 / 3 + 0.01 * normal(60, 3)
    assert set(direction_aucs(g, y).values()) == {1.0}
    noise = direction_aucs(normal(9000, 30), torch.arange(9000) % 3)
    assert all(abs(value - 0.5) < 0.06 for value in noise.values())
    with pytest.raises(ValueError, match="at least one True and one False"):
        direction_aucs(g[:3], torch.tensor([0, 0, 2]))
    for attack in (norm_aucs, direction_aucs):
        with pytest.raises(ValueError, match="g holds NaN"):
            attack(g * float("nan"), y)


# -------------------------------------------------------------------------------------- defences
def test_weight_zero_is_vanilla_and_costs_no_byte():
    records, weights = trained(two_parties(), vanilla := Channel())
    same, same_weights = trained(two_parties(NoPeek, weight=0.0), Channel())
    assert records == same
    assert all(map(torch.equal, weights, same_weights))
    _, others = trained(two_parties(NoPeek, weight=0.5), hidden := Channel())
    assert not all(map(torch.equal, weights, others))
    assert vanilla.nbytes() == hidden.nbytes()


def test_nopeek_survives_small_batches_and_refuses_bad_weights():
    parties = two_parties(NoPeek, weight=1.0)
    split_step(parties, X[:1], Y[:1], Channel())
    split_step(parties, torch.ones(4, 16), Y[:4], Channel())
    assert all(bool(p.isfinite().all()) for p in parties[0].module.parameters())
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"weight=.*0 or more"):
            two_parties(NoPeek, weight=weight)
    with pytest.raises(RuntimeError, match="backward needs a forward before it"):
        two_parties(NoPeek, weight=1.0)[0].backward(torch.ones(2, 640))


@pytest.mark.parametrize(
    "codec",
    [Pipeline(Noise(0.5)), Pipeline(Noise(0.1, seed=3), Quantize(4), ContextEntropy())],
    ids=repr,
)
class TestNoise(Conformance):
    """As every codec, but zeros do not stay zeros."""

    trees: ClassVar = {
        name: TREES[name] for name in ("empty tensor", "matrix", "huge range", "half precision")
    }


def test_noise_alone_explains_nothing():
    explained, decoder, _ = attacked(Pipeline(Noise(1e6)))
    assert -0.02 < explained < 0.01
    assert 0 <= decoder.validation < 0.02


@pytest.mark.later
def test_seeds_reproduce_and_the_global_generator_rests():
    state = torch.get_rng_state()
    codec = Pipeline(Noise(1.0), Quantize(3))
    (one, _, first), (again, _, second), (other, _, _) = (
        attacked(codec, seed=seed) for seed in (4, 4, 5)
    )
    assert one == again
    assert torch.equal(first, second)
    assert one != other
    assert torch.equal(torch.get_rng_state(), state)


def test_noise_is_as_large_as_said():
    x = normal(300, 300).float()
    codec = Pipeline(Noise(2.0))
    added = [codec.decode(codec.encode({"x": x}))["x"] - x for _ in range(2)]
    for noise in added:
        assert float(noise.std()) == pytest.approx(2, rel=0.02)
        assert float(noise.mean()) == pytest.approx(0, abs=0.03)
        assert abs(float(torch.corrcoef(torch.stack([noise.flatten(), x.flatten()]))[0, 1])) < 0.02
    assert abs(float(torch.corrcoef(torch.stack([a.flatten() for a in added]))[0, 1])) < 0.02
    none = Pipeline(Noise(0.0))
    assert torch.equal(none.decode(none.encode({"x": x}))["x"], x)
    for sigma in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=r"sigma=.*0 or more"):
            Noise(sigma)
