"""DES-LOC by hand, and the moments that nobody keeps."""

import pytest
import torch
from core.federated.small import FOUR, INNER, network, plain_ends

from experiments.replications.moments import des_loc
from fltoolkit.channel import Channel
from fltoolkit.federated import Fleet

THREE = {name: FOUR[name] for name in ("w0", "w1", "w2")}


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
