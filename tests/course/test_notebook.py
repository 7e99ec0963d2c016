"""A notebook's guesses and checks: remembered, and shown on its card."""

from pathlib import Path

import pytest
from course.answers import Printed

from fltoolkit_course.done import FILE
from fltoolkit_course.guesses import AT_LEAST_0
from fltoolkit_course.notebook import Answer, Notebook


def letters(answer: object) -> str:
    if not isinstance(answer, str):
        raise ValueError("Write letters, as in 'ab'.")
    return answer.replace(" ", "")


def example() -> Notebook:
    notebook = Notebook(
        "42", "An example", guesses={"How many?": AT_LEAST_0, "Who?": ("alice", "bob")}
    )

    @notebook.answer("bytes")
    def nbytes(*, count: int) -> Answer:
        return Answer(4 * count, (count, "Each takes 4 bytes."))

    @notebook.answer("plan")
    def plan() -> Answer:
        return Answer("ab", ("ba", "The other way round."), read=letters)

    return notebook


def test_checks_compute_compare_and_hint(capsys: Printed) -> None:
    notebook = example()
    assert notebook.check("bytes", 12, count=3)
    assert not notebook.check("bytes", 3, count=3)
    assert "Each takes 4 bytes." in capsys.readouterr().out
    assert not notebook.check("bytes", None, count=3)
    assert "not answered yet" in capsys.readouterr().out


def test_an_answer_is_read_before_it_is_compared(capsys: Printed) -> None:
    notebook = example()
    assert notebook.check("plan", "a b")
    assert not notebook.check("plan", "b a")
    assert not notebook.check("plan", 3)
    said = capsys.readouterr().out
    assert "The other way round." in said
    assert "plan: not yet. Write letters, as in 'ab'." in said


def test_an_unknown_check_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'bytes', 'plan'"):
        example().check("byte", 3)


def test_the_card_and_the_next_day(folder: Path) -> None:
    notebook = example()
    notebook.predict("How many?", None, 20, "B")
    assert not (folder / FILE).exists()
    notebook.predict("How many?", 10, 20, "B")
    notebook.predict("How many?", 20, 20, "B")  # the answer is known by now: the first one counts
    notebook.check("bytes", 12, count=3)
    notebook.check("bytes", 13, count=3)  # once passed it stays passed
    for card in (notebook.card(), example().card()):
        assert card.rows[0] == ["How many?", "10 B", "20 B", "Your guess is 2 times too small."]
        assert card.rows[1] == ["Who?", "not yet", "", ""]  # it was not reached, and is counted
        assert card.rows[2:] == [["bytes", "", "", "passed"], ["plan", "", "", "not yet"]]
        assert card.after == ["1 of 2 guesses made, 1 of 2 checks passed."]


def test_a_late_guess_takes_the_place_of_no_guess(folder: Path) -> None:
    notebook = example()
    for _ in range(2):
        notebook.predict("How many?", None, 20)
    assert notebook.card().rows[0][1] == "no guess"
    notebook.predict("How many?", 10, 20)
    assert notebook.card().rows[0][1] == "10"


def test_without_a_folder_of_the_course_the_card_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = example()
    notebook.predict("How many?", 10, 20)
    assert notebook.card().rows[0][1] == "10"
    assert not list(tmp_path.iterdir())
