"""The page of a sweep is whole, safe and alone."""

import base64
import re

import pytest
from made_up import ALL, FAILED, made_up

from fltoolkit.plots import html_report


@pytest.mark.slow
def test_the_page_is_whole_and_safe():
    evil = made_up("<script>alert(1)</script>", 0, (5, 0.3), rounds=8)
    page = html_report([*ALL, evil], title="a & b", target=0.5)
    assert "<script>" not in page
    assert "a &amp; b" in page
    sources = re.findall(r"(?:src|href)=(.{23})", page)
    assert set(sources) == {'"data:image/png;base64,'}
    pictures = re.findall(r"base64,([^\"]+)", page)
    assert len(pictures) == 5
    assert all(base64.b64decode(p).startswith(b"\x89PNG") for p in pictures)
    assert "ValueError: no" in page
    with pytest.raises(ValueError, match="none of the 1 experiments"):
        html_report([FAILED])
