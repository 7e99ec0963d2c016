"""All notebooks with their minutes, the first ninety of them, and how much a reader has done.

README, the pages and the heads of the notebooks repeat `MINUTES` and `PATH`; a test compares them.
"""

import statistics
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from fltoolkit_course.done import FILE, Done, Table, course_folder, read_done, saved_edition
from fltoolkit_course.notebook import Notebook
from fltoolkit_course.quiz import quiz

# about so many, guessing, reading and running, for somebody who works alone
MINUTES = {
    "00": 15, "01": 45, "01b": 10, "02": 40, "02b": 40, "_gallery": 20, "03": 50, "03b": 50,
    "04": 45, "05": 35, "06": 25, "06b": 30, "07": 35, "07b": 10, "08": 50, "09": 45, "10": 30,
    "11": 45, "12": 45, "13": 40, "14": 45,
}  # fmt: skip
NOTEBOOKS: list[Notebook] = [
    import_module(f"fltoolkit_course.nb{name}").notebook for name in MINUTES
]


class Excerpt(NamedTuple):
    """What the path has of a notebook."""

    minutes: int
    guesses: int  # so many, the first ones of the notebook
    until: str = ""  # the heading at which its reader stops; "": there is none


# The minutes of a part are its share of the notebook's words, lines of code, questions and cells.
PATH = {
    "00": Excerpt(15, 2),
    "01": Excerpt(20, 2, "The full run, live"),
    "01b": Excerpt(10, 2),
    "05": Excerpt(25, 4, "Levels that grow"),
    "08": Excerpt(20, 3, "One number without an attacker: distance correlation"),
}


def path(folder: Path) -> tuple[Table | None, Notebook | None]:
    """A table of the ninety-minute path and what was done of it, and the notebook to go on with.

    A part is done when the measured value of each of its questions was shown. Both are None if the
    reader has begun what is not on the path; the notebook alone is None if all parts are done.
    """
    kept, rows, left, strayed = read_done(folder), [], [], False
    for notebook in NOTEBOOKS:
        part, done = PATH.get(notebook.number, Excerpt(0, 0)), kept.get(notebook.number, Done())
        strayed = strayed or not done.guesses.keys() <= {*_on_path(notebook)}
        if part.minutes:
            where = f"up to the heading {part.until!r}" if part.until else "all of it"
            name, minutes = f"{notebook.number} · {notebook.title}", f"about {part.minutes}"
            walked = done.guesses.keys() >= {*_on_path(notebook)}
            rows.append([name, minutes, "done" if walked else "", where])
            left += [] if rows[-1][2] else [notebook]
    after = f"The path: {len(PATH) - len(left)} of {len(PATH)} done."
    after += f" Notebook 00 has the map of all {len(NOTEBOOKS)}."
    table = Table("The first ninety minutes", ["notebook", "minutes", "", ""], rows, [after])
    return (None, None) if strayed else (table, left[0] if left else None)


def _on_path(notebook: Notebook) -> list[str]:
    """Those questions of a notebook that are on the path."""
    return [*notebook.guesses][: PATH.get(notebook.number, Excerpt(0, 0)).guesses]


def _counts(notebook: Notebook, done: Done) -> tuple[int, int, bool]:
    """Guesses that were made, checks that have passed, and whether these are all."""
    guesses, checks = notebook.counts(done)
    wanted = len(notebook.guesses) + len(notebook.answers)
    return guesses, checks, guesses + checks == wanted > 0


def next_notebook(folder: Path) -> Notebook:
    """The notebook to go on with: the first that is not done, from the last one that was begun.

    A notebook is begun with its first guess or check. After the end of the course come the
    notebooks that were left out before; if all are done, it is the first.
    """
    kept = read_done(folder)
    done = [kept.get(notebook.number, Done()) for notebook in NOTEBOOKS]
    begun = max((n for n, part in enumerate(done) if part.guesses or part.checks), default=0)
    order = [*range(begun, len(NOTEBOOKS)), *range(begun)]
    open_ = (place for place in order if not _counts(NOTEBOOKS[place], done[place])[-1])
    return NOTEBOOKS[next(open_, 0)]


def progress(folder: Path | None = None) -> Table:
    """A table of the notebooks: how many guesses were made, and how many checks have passed.

    It reads what is kept in ``folder``, by default the working folder. A notebook is done when all
    its guesses are made and all its checks have passed; its part of the path alone is named.
    """
    folder = folder or course_folder()
    kept = read_done(folder)
    rows, finished = [], 0
    for notebook in NOTEBOOKS:
        done, asked = kept.get(notebook.number, Done()), {*_on_path(notebook)}
        guesses, checks, whole = _counts(notebook, done)
        finished += whole
        part = "its part of the path" if asked and done.guesses.keys() >= asked else ""
        row = [f"{notebook.number} · {notebook.title}", f"{guesses} of {len(notebook.guesses)}"]
        rows.append([*row, f"{checks} of {len(notebook.answers)}", "done" if whole else part])
    _, right = quiz.counts(kept.get(quiz.number, Done()))
    row = [quiz.title, "", f"{right} of {len(quiz.answers)}"]
    rows.append([*row, "done" if right == len(quiz.answers) else ""])
    made = [guess for done in kept.values() for guess in done.made]
    after = [f"{finished} of {len(NOTEBOOKS)} notebooks done, {len(made)} guesses made."]
    if factors := [guess.factor for guess in made if guess.factor is not None]:
        off = f"{statistics.median(factors):.2g}"
        after.append(f"Half of your guesses were within a factor of {off} of what was measured.")
    if finished == len(NOTEBOOKS):
        after.append("You have finished the course. Every number in this table you guessed first")
        after[-1] += " or worked out yourself: few who speak of federated learning can say that."
    if folder is None:
        why = "in a saved copy nobody guesses" if saved_edition() else "no notebook lies here"
        after.append(f"(Progress is kept in {FILE} beside your notebooks; {why}.)")
    return Table("Your course", ["notebook", "guesses", "checks", ""], rows, after)
