from course.answers import Case

from fltoolkit.channel import Channel
from fltoolkit.testing import normal
from fltoolkit_course.nb11 import notebook
from fltoolkit_research.federated import Ring

CASES = {
    "bytes of a step in a ring": Case(
        facts={"num_parameters": 1000, "num_workers": 4},
        right=[24_000],
        wrong=[32_000, 12_000, 6_000, 24_001],
    ),
    "times fewer bytes in all": Case(
        facts={"times_up": 100, "num_workers": 16},
        right=[200 / 15],
        wrong=[100, 100 / 15, 12.5, 13],
    ),
    "seconds a worker waits": Case(
        facts={"nbytes": 4e6, "nbytes_per_second": 1e6, "seconds_per_step": 0.25},
        right=[1.5],
        wrong=[4, 0, 2.5, 3.75],
    ),
}


def test_the_formula_of_the_ring_is_what_a_ring_sends():
    workers = {f"w{k}": {str(n): normal(250, seed=k) for n in range(4)} for k in range(4)}
    channel = Channel()
    Ring()(channel, workers)
    values = notebook.answers["bytes of a step in a ring"](num_parameters=1000, num_workers=4)
    assert 0 < channel.nbytes() - values.expected < 40 * len(channel.transfers)
