"""The answers of notebook 03. Try first, then look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["card", "check", "notebook", "predict"]

notebook = Notebook("03", "Async states", guesses=8)
card, check, predict = notebook.card, notebook.check, notebook.predict
