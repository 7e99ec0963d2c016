"""fingerprint: the same text for the same value, another for another."""

import torch

from fltoolkit_course import fingerprint


def test_the_same_value_has_the_same_fingerprint() -> None:
    assert fingerprint(torch.arange(3.0)) == fingerprint(torch.arange(3.0))
    assert fingerprint(torch.arange(3.0)) != fingerprint(torch.tensor([0.0, 1.0, 2.5]))
