"""The answers of notebook 00. Try to answer before you look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["bill", "card", "check", "notebook", "predict"]

notebook = Notebook("00", "Start here", guesses=2)
bill, card = notebook.bill, notebook.card
check, predict = notebook.check, notebook.predict
