"""The null rows as protocols: the data sent, an owner alone, nothing."""

import pytest
import torch

from fltoolkit_research import NULL_MODELS, Experiment, num_steps, run
from fltoolkit_research.pooled import lossless

SENT = {"samples": lossless(), "labels": lossless()}
SMALL = {"num_samples": 200, "num_clients": 4, "rounds": 2, "lr": 0.1, "batch_size": 20}


@pytest.mark.slow
def test_the_data_are_sent_once_and_the_receiver_computes_as_much_as_others():
    e = Experiment("pooled", codecs=SENT, **SMALL)
    first, last = run(e)
    assert first["nbytes"] == last["nbytes"] == last["nbytes_up"]
    assert last["nbytes_samples_up"] + last["nbytes_labels_up"] == last["nbytes"]
    assert [first["step"], last["step"]] == [10, 20] == [10, num_steps(e)]
    few = Experiment("pooled", codecs=SENT, settings={"num_kept": 40}, **SMALL)
    assert run(few)[-1]["step"] == 20  # as many steps, from fewer samples
    assert run(few)[-1]["nbytes"] < last["nbytes"] / 2
    assert run(e) == run(e)


@pytest.mark.later
def test_all_owners_alone_are_their_mean():
    each = [run(Experiment("alone", settings={"owner": k}, **SMALL)) for k in range(1, 5)]
    mean = run(Experiment("alone", settings={"owner": "all"}, **SMALL))
    for what in ("accuracy", "test_loss", "loss"):
        columns = zip(*(one.column(what) for one in each), strict=True)
        assert mean.column(what) == pytest.approx([sum(column) / 4 for column in columns])
    assert mean[-1]["nbytes"] == 0


@pytest.mark.later
def test_an_owner_alone_sends_nothing_and_is_worse_than_all():
    how = {**SMALL, "rounds": 8, "num_samples": 600}
    alone = [run(Experiment("alone", settings={"owner": k}, **how))[-1] for k in (1, 4)]
    assert all(last["nbytes"] == 0 for last in alone)
    together = run(Experiment("pooled", codecs=SENT, **how))[-1]
    assert max(last["accuracy"] for last in alone) < together["accuracy"]
    assert alone[0]["accuracy"] != alone[1]["accuracy"]


def test_nothing_is_the_untrained_network_or_a_constant():
    guess = run(Experiment("nothing", settings={"commonest": True}, **SMALL))
    assert guess[0]["accuracy"] == guess[1]["accuracy"] == pytest.approx(0.1, abs=0.01)
    assert guess[0]["test_loss"] == pytest.approx(torch.tensor(10.0).log().item(), abs=0.05)
    untrained = run(Experiment("nothing", **SMALL))[-1]
    assert (untrained["nbytes"], untrained["accuracy"] < 0.3) == (0, True)


def test_what_cannot_be_run_is_refused():
    with pytest.raises(ValueError, match="owner=5, num_clients=4"):
        Experiment("alone", settings={"owner": 5}, **SMALL)
    for wrong in ("some", 0):
        with pytest.raises(ValueError, match="a whole number from 1 to num_clients"):
            Experiment("alone", settings={"owner": wrong}, **SMALL)
    with pytest.raises(ValueError, match="num_kept"):
        Experiment("pooled", settings={"choose": "random"}, **SMALL)
    with pytest.raises(ValueError, match="'random', or a function"):
        Experiment("pooled", settings={"choose": "best", "num_kept": 3}, **SMALL)
    for name in NULL_MODELS:
        with pytest.raises(ValueError, match="evaluations=2"):
            Experiment(name, evaluations=2, **SMALL)
