"""The code of these pages runs, and prints what the page says."""

import re

import pytest
from mypy import api
from pages import DOCS, run_page, with_accuracies_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "images", "num_texts"),
    [
        ("federated", 360, 8),
        ("split_extras", None, 3),
        ("one_sum", None, 1),
        ("coming_from", 360, 6),
    ],
)
def test_the_page_prints_what_it_says(name, images, num_texts, capsys):
    if name == "federated":
        pytest.importorskip("dp_accounting")  # for epsilon
    assert run_page(name, capsys, images=images) == num_texts


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ("Plain PyTorch", "DataLoader Dataset DistributedDataParallel state_dict"),
        ("TensorFlow Federated", "encoder MeanFactory EncodedSumFactory"),
        ("SecretFlow", "loss_thres split_steps max_fuse_local_steps"),
        ("coMind's optimizer", "interval_steps replicas_to_aggregate total_num_replicas"),
        ("PySyft", "VirtualWorker TorchHook .send .move"),
        ("Flower", "Strategy NumPyClient num_rounds"),
    ],
)
def test_who_comes_finds_the_words_of_that_system(system, words):
    page = (DOCS / "coming_from.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {system}\b.*?\n(.*?)(?=^## |\Z)", page, re.M | re.DOTALL)
    theirs = [row.split("|")[1] for row in re.findall(r"^\|.*\|$", section, re.M)]
    for word in words.split():
        assert any(re.search(rf"{re.escape(word)}\b", cell) for cell in theirs), word


def test_one_image_is_allowed_and_nothing_else():
    page = "sparse  92.0 % (90.6 to 92.8)  12.0 s    203 kB\n"
    other = "sparse  92.1 % (90.3 to 92.8)  12.0 s    203 kB\n"
    assert with_accuracies_of(page, other, 100 / 360) == page
    for wrong in (
        page.replace("92.0", "92.5"),
        page.replace("203", "204"),
        page.replace("12", "13"),
    ):
        assert with_accuracies_of(page, wrong, 100 / 360) != page


@pytest.mark.slow
def test_the_code_of_the_readme_passes_a_type_checker(tmp_path, monkeypatch):
    """As a user's own file does, who divides a record's bytes."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", readme, re.DOTALL))
    user = tmp_path / "mine.py"
    user.write_text(code + '\nmegabytes: float = records[-1]["nbytes"] / 1e6\n', encoding="utf-8")
    monkeypatch.chdir(DOCS.parent)  # with the settings and the cache of `make check`
    words, errors, status = api.run([str(user)])
    assert status == 0, words + errors
