import contextlib
import io
from functools import cache
from pathlib import Path

from fltoolkit_grading.master import assemble, kind_of, load_master, mark_of, text_of
from fltoolkit_grading.worker import same_output, spoken

FOLDER = Path(__file__).parents[2] / "notebooks" / "assignments"
PATHS = sorted(FOLDER.glob("*.ipynb"))
NUMBERS = [int(path.name[0]) for path in PATHS]


@cache
def master_of(number: int):
    return load_master(PATHS[NUMBERS.index(number)])


def solutions(master):
    return {cell["id"]: text_of(cell) for cell in master.cells if kind_of(cell) == "answer"}


def play(notebook):
    """What each cell printed, or the error that it raised, run one after the other."""
    return dict(_played(tuple((cell["id"], cell["source"]) for cell in notebook["cells"])))


@cache
def _played(cells):
    space, said, out = {"__name__": "__main__"}, {}, io.StringIO()
    for name, source in cells:
        out.seek(0)
        out.truncate()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(source, name, "exec"), space)
            said[name] = out.getvalue()
        except Exception as error:
            said[name] = error.with_traceback(None)
    return said


def outputs(master, answers, seed):
    """As `play`, and of hidden checks what they say themselves."""
    said = play(assemble(master, answers, seed))
    for name in master.ids("hidden"):
        if isinstance(said[name], str):
            said[name] = spoken(said[name], mark_of(seed, name))
    return said


def lost(master, answers, seed):
    """The hidden checks that these answers lose."""
    right, given = outputs(master, None, seed), outputs(master, answers, seed)
    hidden = master.ids("hidden")
    errors = {name: said for name, said in right.items() if isinstance(said, Exception)}
    assert not errors, errors
    return {
        n for n in hidden if not (isinstance(given[n], str) and same_output(right[n], given[n]))
    }
