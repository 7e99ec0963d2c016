"""Named rows have seeds that were drawn once, after them."""

import shutil

import pytest

from experiments import fresh
from experiments.pareto.report import read_kept
from experiments.pareto.tuned import PLANS, SEEDS
from experiments.runs import read

pytestmark = pytest.mark.later


def test_every_named_row_has_seeds_and_none_is_drawn_again(tmp_path):
    path = tmp_path / "seeds.jsonl"
    shutil.copy(fresh.DRAWN, path)
    fresh.draw(path)
    assert path.read_bytes() == fresh.DRAWN.read_bytes()


def test_a_new_name_gets_seeds_of_its_own(tmp_path):
    path = tmp_path / "seeds.jsonl"
    lines = fresh.DRAWN.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    fresh.draw(path)
    *kept, new = read(path).values()
    assert kept == [*read(fresh.DRAWN).values()][:-1]
    before = read(fresh.DRAWN)[new["key"]]
    assert new["names"] == before["names"]
    assert new["seeds"] != before["seeds"]


def test_no_other_run_of_these_tables_has_the_seeds():
    used = {r.experiment.seed for r in read_kept()} | {*SEEDS}
    used |= {seed for plan in PLANS.values() for seed in plan.trial_seeds}
    for row in read(fresh.DRAWN).values():
        assert len({*row["seeds"]} - used) == fresh.NUM_SEEDS
