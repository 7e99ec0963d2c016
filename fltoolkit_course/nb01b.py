"""The question of notebook 01b. Try to answer before you look."""

from fltoolkit_course.guesses import OF_ALL
from fltoolkit_course.notebook import Notebook

notebook = Notebook("01b", "Ten owners", guesses={"Right together, of 100 new images?": OF_ALL})
card, predict = notebook.card, notebook.predict
