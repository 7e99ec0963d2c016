import sys

import numpy as np
import pytest
from coder_laws import CoderLaws, entropy_nbytes, gaussian, nbytes, symbols

from experiments.replications.deflate import Deflate
from experiments.replications.zstandard import Zstd

pytestmark = pytest.mark.later
both = pytest.mark.parametrize("coder", [Deflate(), Zstd()], ids=repr)


@pytest.fixture(autouse=True)
def _zstandard_may_be_missing(request):
    if "Zstd" in request.node.name:
        pytest.importorskip("zstandard")


@both
class TestCompressors(CoderLaws):
    """All of them."""

    def test_close_to_the_entropy(self, coder):
        q = gaussian(100_000, 8)
        assert nbytes(coder, symbols(q, 256)) <= 1.05 * entropy_nbytes(q)

    def test_a_large_entry_comes_back(self, coder):
        q = gaussian(1_300_000, 8)
        part = coder.undo(coder.apply({"w": symbols(q, 256)}))["w"]
        assert np.array_equal(part.values.numpy(), q)

    def test_much_of_the_same_is_vouched_for(self, coder):
        assert nbytes(coder, symbols(np.zeros(3_000_000), 256)) < 3_000_000 / 512


def test_missing_zstandard_says_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImportError, match="pip install zstandard"):
        Zstd().apply({"w": symbols([1], 2)})
