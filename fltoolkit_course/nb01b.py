"""The questions of notebook 01b. Try to answer before you look."""

from fltoolkit_course.guesses import AT_LEAST_0, OF_ALL
from fltoolkit_course.notebook import Notebook

notebook = Notebook(
    "01b",
    "Ten owners",
    guesses={
        "Right together, of 100 new images?": OF_ALL,
        "How many times fewer bytes, if all images are sent?": AT_LEAST_0,
    },
)
bill, card, predict = notebook.bill, notebook.card, notebook.predict
