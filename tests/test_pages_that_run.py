import re
import runpy

import pytest
from mypy import api
from pages import DOCS, run_page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "images", "num_texts"),
    [
        pytest.param("federated", 370, 7, marks=pytest.mark.nightly),
        ("split_extras", None, 2),
        ("one_sum", None, 1),
        ("coming_from", 370, 7),
    ],
)
def test_the_page_prints_what_it_says(name, images, num_texts, capsys):
    if name == "federated":
        pytest.importorskip("dp_accounting")  # for epsilon
    assert run_page(name, capsys, images=images) == num_texts


MINE = """
def score() -> Scores:
    return evaluate([alice, bob], data.x_test, data.y_test)

megabytes: float = records[-1]["nbytes"] / 1e6
history = History(records)
history.append({**records[-1], "lr": 0.1})
steps = history.follow(train_split([alice, bob], batches.epochs(1), channel))
for step in evaluated(steps, score, every=9):
    shown: float = step["loss"] + step.get("accuracy", 0.0)
    step["acuracy"]  # wrong
    step["state"]  # wrong
    step["lr"] = 0.1  # wrong
for told in evaluated(steps, lambda: {"f1": 0.5}, every=9):
    told["f1"]
for silent in train_async(alice, bob, batches, channel, gate=LossGate(0.1), num_epochs=1):
    words: str = silent["state"] + str(silent["stale"] / 2)
    silent["state"] / 2  # wrong
    silent["client"]  # wrong
for turn in train_relay([alice], bob, [batches], channel, num_rounds=1):
    named: str = turn["client"]
    turn["clients"]  # wrong
records[-1]["nbyte"]  # wrong
records[-1]["nbytes"] + "MB"  # wrong
score()["acuracy"]  # wrong
evaluate(model, data.x_test, data.y_test)["acuracy"]  # wrong
evaluate(model, data.x_test, data.y_test, metric=Metric("f1", None))["f1"] / 2
"""


@pytest.mark.slow
def test_the_code_of_the_readme_passes_a_type_checker_and_mistakes_do_not(tmp_path, monkeypatch):
    """As a user's own file does, who divides a record's bytes, or misspells a key."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    code += "\nfrom fltoolkit import History, LossGate, evaluated, train_async, train_relay"
    code += "\nfrom fltoolkit.history import Scores\nfrom fltoolkit.metrics import Metric\n" + MINE
    user = tmp_path / "mine.py"
    user.write_text(code, encoding="utf-8")
    monkeypatch.chdir(DOCS.parent)  # with the settings and the cache of `make check`
    words, errors, _ = api.run([str(user)])
    wrong = {n for n, line in enumerate(code.splitlines(), 1) if line.endswith("# wrong")}
    assert {int(n) for n in re.findall(r":(\d+): error", words)} == wrong, words + errors


@pytest.mark.later
def test_the_page_shows_what_the_suite_finds_in_codecs_of_other_systems(capsys):
    example = runpy.run_path(str(DOCS.parent / "examples" / "foreign_codecs.py"))
    example["main"]()
    printed = capsys.readouterr().out
    assert printed.count("\n") == 7
    assert printed in (DOCS / "codecs.md").read_text(encoding="utf-8")
