"""Secure sums between processes, one per client: the weights and the bytes of one process."""

import pytest
from distributed_scenarios import assert_one_run, start
from secrecy_scenarios import HOW, PROTOCOLS, RANKS, run, together

from fltoolkit.channel import Channel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def five() -> list:
    return start(together, len(RANKS))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_process_per_client_is_one_process(five, protocol, how):
    assert not (failed := [told for told in five if len(told) == 3]), failed
    whole = run(protocol, how, Channel())
    parts = {rank: part for rank, p, h, part in five if (p, h) == (protocol, how)}
    assert_one_run(parts, RANKS, whole)
    assert all(part["weights"] == whole["weights"] for part in parts.values())
