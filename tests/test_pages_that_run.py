"""The code of these pages runs, and prints what the page says."""

import pytest
from pages import run_page, with_accuracies_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "images", "num_texts"),
    [
        ("federated", 360, 8),
        ("split_extras", None, 3),
        ("one_sum", None, 1),
        ("coming_from", None, 5),
    ],
)
def test_the_page_prints_what_it_says(name, images, num_texts, capsys):
    if name == "federated":
        pytest.importorskip("dp_accounting")  # for epsilon
    assert run_page(name, capsys, images=images) == num_texts


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
