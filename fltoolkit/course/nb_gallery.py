"""The answers of the codec gallery. Try first, then look."""

from fltoolkit.course.notebook import Notebook

__all__ = ["card", "check", "notebook", "predict"]

notebook = Notebook("gallery", "Codec gallery", guesses=5)
card, check, predict = notebook.card, notebook.check, notebook.predict
