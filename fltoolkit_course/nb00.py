"""The answers of notebook 00. Try to answer before you look."""

from fltoolkit_course.guesses import AT_LEAST_0, OF_ALL
from fltoolkit_course.notebook import Notebook

notebook = Notebook(
    "00", "Start here", guesses={"Right, of 100 new images?": OF_ALL, "Megabytes sent?": AT_LEAST_0}
)
bill, card, check, predict = notebook.bill, notebook.card, notebook.check, notebook.predict
