"""The page of a sweep is whole, safe and alone."""

import base64
import re

import pytest
from made_up import ALL, FAILED, made_up

from fltoolkit.history import History
from fltoolkit_research import Experiment, Result
from fltoolkit_research.plots import html_report


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


def test_samples_sent_once_and_runs_that_send_nothing_are_reported() -> None:
    def run(name: str, seed: int, record: dict) -> Result:
        record = {"step": 1, "num_waits": 1} | record
        return Result(Experiment(name=name, seed=seed), History([record]), "", 1.0)

    silent = [run("alone", s, {"nbytes": 0, "accuracy": 0.5 + s / 100}) for s in (0, 1)]
    sizes = {0: 29_897, 1: 29_793}
    data = [
        run("data", s, {"nbytes": n, "accuracy": 0.9, "nbytes_samples_up": n})
        for s, n in sizes.items()
    ]
    assert "share no range of bytes" in html_report([*silent, *data])
    assert "The ledger" not in html_report(silent), "no sizes where nothing was sent"
