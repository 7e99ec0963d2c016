"""Two owners find whom they share, and train on them."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from experiments.replications.intersection import align
from fltoolkit import SGD, Channel, Party, train_vertical
from fltoolkit_research.leakage import Listener

pytest.importorskip("private_set_intersection")

ANN = [f"person {k}" for k in range(0, 60, 2)]  # even numbers below 60
BEN = [f"person {k}" for k in range(60, -1, -3)]  # multiples of three, the largest first


def test_rows_of_both_belong_to_the_same_people():
    rows = align(Channel(), {"ann": ANN, "ben": BEN})
    shared = [ANN[k] for k in rows["ann"]]
    assert shared == [BEN[k] for k in rows["ben"]]
    assert {*shared} == {*ANN} & {*BEN}
    assert len(shared) == 10


@pytest.mark.parametrize(
    "shuffled",
    [
        pd.Series(["p1", "p2", "p3", "p4"]).sample(frac=1, random_state=1),
        pd.Series(["p0", "p1", "p2", "p3", "p4"])[1:],
        pd.Index(["p4", "p1", "p3", "p2"]),
        np.array(["p4", "p1", "p3", "p2"]),
    ],
    ids=["shuffled column", "filtered column", "index", "array"],
)
def test_rows_are_positions_whatever_labels_a_table_has(shuffled):
    plain = ["p1", "p2", "p3", "p4"]
    for ids in ({"ann": shuffled, "ben": plain}, {"ann": plain, "ben": shuffled}):
        rows = align(Channel(), ids)
        found = [[[*ids[name]][k] for k in rows[name]] for name in ids]
        assert found[0] == found[1]
        assert sorted(found[0]) == plain


def test_bytes_are_counted_and_no_other_id_is_readable():
    listener = Listener(kinds=["intersection"])
    align(listener, {"ann": ANN, "ben": BEN})
    assert {t.kind for t in listener.transfers} == {"intersection"}
    assert len(listener.transfers) == 3
    for message in listener.heard:
        content = b"".join(t.numpy().tobytes() for t in message.tree.values())
        readable = {p for p in {*ANN, *BEN} if p.encode() in content.split(b"\n")}
        assert readable == ({*ANN} & {*BEN} if "shared" in message.tree else set())
    # about 35 bytes for each id of the first owner, twice, and of the second
    per_id = listener.nbytes() / (2 * len(ANN) + len(BEN))
    assert 30 < per_id < 45


def test_the_same_ids_look_different_in_another_run():
    seen = []
    for _ in range(2):
        listener = Listener(kinds=["intersection"])
        align(listener, {"ann": ANN, "ben": BEN})
        seen.append(listener.heard[0].tree["ids"])
    assert not torch.equal(*seen)


def test_owners_align_and_then_train():
    people = {f"person {k}": torch.tensor([float(k % 5), float(k % 7)]) for k in range(61)}
    x_ann = torch.stack([people[p][:1] for p in ANN])
    x_ben = torch.stack([people[p][1:] for p in BEN])
    channel = Channel()
    rows = align(channel, {"ann": ANN, "ben": BEN})
    y = torch.stack([people[ANN[k]].sum(0, keepdim=True) for k in rows["ann"]])
    before = channel.nbytes()
    modules = [nn.Linear(1, 2), nn.Linear(1, 2), nn.Linear(4, 1)]
    with torch.no_grad():
        for module in modules:
            for parameter in module.parameters():
                parameter.fill_(0.5)
    ann, ben, carol = (
        Party(name, module, SGD(module.parameters(), lr=0.01), loss)
        for name, module, loss in zip(
            ("ann", "ben", "carol"), modules, (None, None, nn.MSELoss()), strict=True
        )
    )
    batches = [((x_ann[rows["ann"]], x_ben[rows["ben"]]), y)] * 60
    losses = [record["loss"] for record in train_vertical([ann, ben], carol, batches, channel)]
    assert losses[-1] < losses[0] / 10
    assert 0 < before < channel.nbytes()


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ({"ann": ["1"]}, "two owners"),
        ({"ann": ["1", "1"], "ben": ["1"]}, "ids of 'ann'"),
        ({"ann": "12", "ben": ["1"]}, "ids of 'ann'"),
        ({"ann": ["1"], "ben": ["2"]}, "share no id"),
        ({"ann": [1, 2], "ben": ["1"]}, "ids of 'ann': row 0 is 1, a int"),
        ({"ann": ["1"], "ben": pd.Series(["1", None])}, "ids of 'ben': row 1"),
        ({"ann": ["1"], "ben": {"1", "2"}}, "ids of 'ben' are a set"),
        ({"ann": ["1\n", "2\n"], "ben": ["1", "2"]}, "white space"),
        ({"ann": ["1"], "ben": ["a\nb", "1"]}, "line break"),
    ],
)
def test_what_cannot_be_aligned(ids, text):
    with pytest.raises((TypeError, ValueError), match=text):
        align(Channel(), ids)
