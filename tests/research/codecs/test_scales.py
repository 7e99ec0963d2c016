"""What is special of `Sign` and `QSGD`; tests/core/codecs/test_quantize.py has the laws of all."""

import torch

from fltoolkit.testing import normal
from fltoolkit_research.codecs import QSGD, Sign

MAX = torch.finfo(torch.float32).max


def there_and_back(stage, tensor):
    return stage.undo(stage.apply({"w": tensor}))["w"]


def test_sign_contracts_exactly_as_stated():
    one = torch.zeros(50)
    one[3] = -2
    for x in (normal(1000), normal(64) ** 7, one, torch.ones(5), normal(1000) * 1e37):
        n, exact = x.numel(), x.double()
        squared = ((there_and_back(Sign(), x).double() - exact) ** 2).sum()
        alpha = exact.abs().sum() ** 2 / (n * (exact**2).sum())
        torch.testing.assert_close(squared, (1 - alpha) * (exact**2).sum(), rtol=1e-6, atol=1e-9)
    assert there_and_back(Sign(), torch.tensor([0.0, -1.0, 2.0])).tolist() == [1.0, -1.0, 1.0]
    assert not there_and_back(Sign(), torch.zeros(9)).any()


def test_qsgd_of_a_norm_beyond_float32_is_unbiased():
    x = torch.full((512,), MAX)
    x[::2] = -MAX / 2
    out = torch.stack([there_and_back(stage, x) for stage in [QSGD(1)] for _ in range(300)])
    assert out.isfinite().all()
    torch.testing.assert_close(out.double().mean(0)[1::2], x[1::2].double(), rtol=1e-6, atol=0)
    assert abs(float(out[:, ::2].double().mean()) / (-MAX / 2) - 1) < 0.02
