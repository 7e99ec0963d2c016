"""The question of notebook 07b. Try to answer before you look."""

from fltoolkit_course.guesses import Between
from fltoolkit_course.notebook import Notebook

notebook = Notebook("07b", "The bench", guesses={"Trained by the second sweep?": Between(0, 4)})
card, predict = notebook.card, notebook.predict
