"""Workers in processes of their own: the weights of one process, in every process."""

from collections import Counter

import pytest
from averaging_scenarios import RUNS, codecs, ranks_of, run, together
from distributed_scenarios import start

from fltoolkit.channel import Channel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def three() -> list:
    return start(together, 3)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_three_processes_are_one(three, name, compressed):
    assert not (failed := [told for told in three if len(told) == 3]), failed
    whole = run(name, Channel(codecs() if compressed else None))
    parts = {rank: part for rank, which, comp, part in three if (which, comp) == (name, compressed)}
    assert set(parts) == {0, 1, 2}
    for part in parts.values():
        assert part["weights"] == whole["weights"]
        assert part["steps"] == whole["steps"]
    ranks = ranks_of(name)
    sent = Counter(
        t for rank, part in parts.items() for t in part["transfers"] if ranks[t[1]] == rank
    )
    came = Counter(
        t for rank, part in parts.items() for t in part["transfers"] if ranks[t[2]] == rank
    )
    assert sent == came == Counter(whole["transfers"])
