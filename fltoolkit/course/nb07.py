"""The answers of notebook 07. Try first, then look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["card", "check", "notebook", "predict"]

notebook = Notebook("07", "The trade-off", guesses=4)
card, check, predict = notebook.card, notebook.check, notebook.predict
