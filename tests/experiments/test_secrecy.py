"""The experiment on secrecy: small runs on digits, and what its page may say."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.runs import read, sweep
from experiments.secrecy.__main__ import RESULTS
from experiments.secrecy.figure import bars, draw
from experiments.secrecy.report import report
from experiments.secrecy.run import run
from experiments.secrecy.settings import TASKS, settings

SMALL = replace(TASKS["digits"], rounds=2)
PAGE = Path(__file__).parents[2] / "docs" / "secrecy.md"


def setting(name, num_clients=10):
    return next(s for s in settings(SMALL) if (s.name, s.num_clients) == (name, num_clients))


@pytest.fixture(scope="module")
def both():
    return [run(SMALL, setting(name), 0) for name in ("2 bits, clear", "2 bits, secret")]


def test_the_secret_run_has_the_weights_of_the_clear_one_and_costs_more(both):
    clear, secret = both
    assert clear["weights"] == secret["weights"]
    assert clear["accuracy"] == secret["accuracy"] > 0.3
    assert secret["nbytes"] > clear["nbytes"]
    assert {*clear["up"]} == {"model", "update"}
    assert {*secret["up"]} == {"model", "keys", "shares", "masked", "unmasking"}
    for result in both:
        json.dumps(result, allow_nan=False)


def test_a_masked_value_has_the_bits_of_the_sum(both):
    """Nine or ten of ten clients send 2,410 values of 5 bits; the frame has 15 bytes."""
    _, secret = both
    per_message = -(-2_410 * 5 // 8)
    assert 0.9 * per_message < secret["up"]["masked"] <= per_message + 15


def test_a_finished_run_is_not_run_again_and_is_in_the_table(both, tmp_path):
    for result in both:
        with (tmp_path / "r").open("a") as file:
            file.write(json.dumps(result) + "\n")
    names = ("2 bits, clear", "2 bits, secret")
    sweep(run, [(SMALL, setting(name), 0) for name in names], tmp_path / "r")
    assert len(read(tmp_path / "r")) == 2


def test_settings_have_keys_of_their_own():
    for task in TASKS.values():
        keys = [s.key(task, seed) for s in settings(task) for seed in s.seeds]
        assert len(keys) == len({*keys})


def test_the_page_holds_the_tables_of_the_stored_runs():
    page = PAGE.read_text(encoding="utf-8")
    blocks = report(read(RESULTS)).split("\n\n")
    assert len(blocks) >= 6
    for block in blocks:
        assert block in page, f"python -m experiments.secrecy --report prints:\n{block}"


@pytest.mark.later
def test_the_figure_shows_the_bytes_of_the_table(tmp_path):
    """3.1 bits more per value for the sum of ten, and for keys and shares."""
    words = draw(read(RESULTS), tmp_path / "secrecy.png")
    assert (tmp_path / "secrecy.png").stat().st_size > 10_000
    rows = bars(read(RESULTS), 10)
    assert list(rows)[:2] == ["2 bits, clear", "2 bits, secret"]
    assert rows["2 bits, clear"]["masked"] == rows["2 bits, secret"]["update"] == 0
    page = PAGE.read_text(encoding="utf-8")
    for name, kinds in rows.items():
        total = f"{sum(kinds.values()):.1f}"
        assert f"10 clients, {name}: {total}" in words
        row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {total} |" in row
