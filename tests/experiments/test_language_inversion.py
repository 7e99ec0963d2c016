"""The inversion experiment: its links, one attack on a small model, its table."""

import pytest

from experiments.language import inversion
from experiments.language.inversion import Setting, Task
from fltoolkit.codecs import Pipeline
from fltoolkit_research.leakage import Noise

SMALL = Task("topics", 2, 20, 5)


@pytest.mark.later
def test_an_open_link_tells_and_loud_noise_does_not():
    plain, loud = (
        inversion.run(SMALL, Setting("s", codec, cut=1), 0)
        for codec in (None, Pipeline(Noise(100.0)))
    )
    assert plain["nearest"] > 0.99
    assert loud["nearest"] < plain["null"]
    assert loud["probe"] == pytest.approx(plain["null"], abs=0.12)
    assert 4 * 64 < plain["nbytes"] < 4 * 64 + 1
    assert inversion.summary(plain).startswith("probe ")
