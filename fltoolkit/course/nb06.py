"""The answers of notebook 06. Try first, then look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["card", "check", "notebook", "predict"]

notebook = Notebook("06", "Top-k and error feedback", guesses=7)
card, check, predict = notebook.card, notebook.check, notebook.predict
