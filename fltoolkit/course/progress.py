"""How much of the whole course a reader has done."""

from fltoolkit.course import (
    nb00,
    nb01,
    nb02,
    nb03,
    nb04,
    nb05,
    nb06,
    nb06b,
    nb07,
    nb08,
    nb09,
    nb10,
    nb11,
    nb12,
    nb_gallery,
)
from fltoolkit.course.done import (
    FILE,
    Done,
    Table,
    course_folder,
    off_in_the_median,
    read,
    saved_edition,
)
from fltoolkit.course.notebook import Notebook
from fltoolkit.course.quiz import quiz

__all__ = ["NOTEBOOKS", "progress"]

NOTEBOOKS: list[Notebook] = [
    module.notebook
    for module in (
        *(nb00, nb01, nb02, nb_gallery, nb03, nb04, nb05),
        *(nb06, nb06b, nb07, nb08, nb09, nb10, nb11, nb12),
    )
]


def progress() -> Table:
    """A table of the notebooks: how many guesses were made, and how many checks have passed.

    It reads what is kept in the working folder.

    A notebook is done when all its guesses are made and all its checks have passed.

    >>> progress().rows[1]  # where no notebook lies, as here, nothing is kept
    ['01 · Vanilla SplitNN', '0 of 4', '0 of 3', '']
    """
    kept = read(course_folder())
    rows, finished = [], 0
    for notebook in NOTEBOOKS:
        done = kept.get(notebook.number, Done())
        guesses, checks = len(done.made), sum(name in notebook.answers for name in done.passed)
        wanted = notebook.num_guesses + len(notebook.answers)
        whole = guesses >= notebook.num_guesses and checks == len(notebook.answers) and wanted > 0
        finished += whole
        row = [f"{notebook.number} · {notebook.title}", f"{guesses} of {notebook.num_guesses}"]
        rows.append([*row, f"{checks} of {len(notebook.answers)}", "done" if whole else ""])
    right = sum(name in quiz.answers for name in kept.get(quiz.number, Done()).passed)
    row = [quiz.title, "", f"{right} of {len(quiz.answers)}"]
    rows.append([*row, "done" if right == len(quiz.answers) else ""])
    made = [guess for done in kept.values() for guess in done.made]
    after = [f"{finished} of {len(NOTEBOOKS)} notebooks done, {len(made)} guesses made."]
    if off := off_in_the_median(made):
        after.append(f"Half of your guesses were within a factor of {off} of what was measured.")
    if finished == len(NOTEBOOKS):
        after.append("You have finished the course. Every number in this table you guessed first")
        after[-1] += " or worked out yourself: few who speak of federated learning can say that."
    if course_folder() is None:
        why = "in a saved copy nobody guesses" if saved_edition() else "no notebook lies here"
        after.append(f"(Progress is kept in {FILE} beside your notebooks; {why}.)")
    return Table("Your course", ["notebook", "guesses", "checks", ""], rows, after)
