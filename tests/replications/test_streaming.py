"""Streaming DiLoCo: fragments take turns, arrive later, are mixed in; and DES-LOC by hand."""

import pytest
import torch
from core.federated.small import INNER, network, plain_ends, weights
from research.federated.test_local_steps import HALF, PULLS, THREE, pull

from experiments.replications.moments import des_loc
from experiments.replications.streaming import Underway, streaming_diloco
from fltoolkit.channel import Channel
from fltoolkit.federated import Fleet
from fltoolkit_research.federated import diloco


@pytest.mark.later
def test_one_fragment_without_overlap_is_diloco():
    model, other = network(), network()
    list(diloco(model, THREE, Channel(), rounds=4, local=INNER))
    still = {"fragments": 1, "overlap": 0, "blend": 0.0}
    list(streaming_diloco(other, THREE, Channel(), rounds=4, local=INNER, **still))
    assert torch.allclose(weights(model), weights(other), atol=1e-5)
    delayed = network()
    list(streaming_diloco(delayed, THREE, Channel(), rounds=4, local=INNER, fragments=1))
    assert not torch.allclose(weights(model), weights(delayed), atol=1e-3)


def test_fragments_take_turns_and_arrive_a_round_later():
    model, channel, before = network(), Channel(), network()
    moved = []
    for _ in streaming_diloco(model, THREE, channel, rounds=4, local=INNER):
        old = before.state_dict()
        moved.append([n for n, p in model.named_parameters() if not torch.equal(p, old[n])])
        before.load_state_dict(model.state_dict())
    sent = [t for t in channel.transfers if t.kind == "update" and t.sender == "w0"]
    assert len(sent) == 4
    assert sent[0].nbytes == sent[2].nbytes
    assert moved[0] == []
    assert sorted(moved[1] + moved[2]) == sorted(n for n, _ in model.named_parameters())
    assert moved[1] == moved[3]


def test_blending_by_hand():
    """One weight, one fragment, a round late: own weights are mixed half and half with the shared.

    Round 1: a goes from 8 to 2, b to 5; mean of the way -4.5 is under way. Round 2: a goes from 2
    to 0.5, b from 5 to 4.25; the way from the shared 8 (mean -5.625) is sent; -4.5 arrives: shared
    3.5, a (0.5 + 3.5) / 2 = 2, b 3.875. Round 3: a 0.5, b 3.96875; -5.625 arrives: shared -2.125.
    """
    model, memory = pull(), Underway()
    how = {"rounds": 3, "local": HALF, "fragments": 1, "memory": memory}
    records = streaming_diloco(model, PULLS, Channel(), **how)
    found = []
    for _ in records:
        found.append((model.weight.item(), *(memory.weights[w]["weight"].item() for w in "ab")))
    assert found == [(8.0, 2.0, 5.0), (3.5, 2.0, 3.875), (-2.125, -0.8125, 0.921875)]


def test_more_fragments_than_entries_are_refused():
    with pytest.raises(ValueError, match="fragments=5: the model has"):
        streaming_diloco(network(), THREE, Channel(), rounds=1, local=INNER, fragments=5)


@pytest.mark.later
def test_moments_are_averaged_every_so_many_rounds():
    """DES-LOC by hand: the first moment after rounds 2 and 4, the second after round 3."""
    model, plain, channel, fleet, states = network(), network(), Channel(), Fleet(THREE), {}
    periods = {"exp_avg": 2, "exp_avg_sq": 3}
    how = {"rounds": 4, "local": INNER, "moments": periods, "seed": 2}
    list(des_loc(model, fleet, channel, **how))
    start = {name: p.detach().clone() for name, p in plain.named_parameters()}
    for round_ in range(4):
        ends = plain_ends(plain, dict.fromkeys(THREE, start), round_, states).values()
        start = {name: sum(end[name] for end in ends) / 3 for name in start}
        for entry, every in periods.items():
            for k in range(4) if (round_ + 1) % every == 0 else ():
                mean = sum(states[worker]["state"][k][entry] for worker in THREE) / 3
                for worker in THREE:
                    states[worker]["state"][k][entry] = mean.clone()
    for name, p in model.named_parameters():
        assert torch.allclose(p, start[name], atol=1e-5), name
    kept = [fleet.optimizers[worker]["state"][0] for worker in THREE]
    assert torch.equal(kept[0]["exp_avg"], kept[1]["exp_avg"])
    assert not torch.equal(kept[0]["exp_avg_sq"], kept[1]["exp_avg_sq"])
    sent = [sum(t.nbytes_dense for t in channel.transfers if t.step == k) for k in (1, 2, 3, 4)]
    assert [each // sent[0] for each in sent] == [1, 2, 2, 2]
