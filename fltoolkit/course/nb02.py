"""The answers of notebook 02. Try first, then look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["card", "check", "notebook", "predict"]

notebook = Notebook("02", "Many Alices", guesses=4)
card, check, predict = notebook.card, notebook.check, notebook.predict
