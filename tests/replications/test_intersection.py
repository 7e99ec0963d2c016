import pytest

from experiments.replications.intersection import align
from fltoolkit import Channel
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


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ({"ann": ["1"]}, "two owners"),
        ({"ann": ["1", "1"], "ben": ["1"]}, "each once"),
        ({"ann": ["1"], "ben": ["2"]}, "share no id"),
        ({"ann": [1, 2], "ben": ["1"]}, "ids of 'ann': give texts"),
        ({"ann": ["1"], "ben": {"1", "2"}}, "ids of 'ben': give them in an order"),
        ({"ann": ["1\n", "2\n"], "ben": ["1", "2"]}, "white space"),
    ],
)
def test_what_cannot_be_aligned(ids, text):
    with pytest.raises((TypeError, ValueError), match=text):
        align(Channel(), ids)
