"""The answers of notebook 08. Try first, then look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["card", "check", "notebook", "predict"]

notebook = Notebook("08", "What leaks", guesses=7)
card, check, predict = notebook.card, notebook.check, notebook.predict
