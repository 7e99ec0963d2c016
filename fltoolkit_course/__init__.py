"""The course: guesses, checks of answers, labs, panels and moving pictures of the notebooks.

    guesses         a guess before a result, and how far it was off
    comparison      a comparison of an answer with what is expected, with hints
    fingerprints    a short text that stands for a value, to compare with
    done            what a reader has done, kept in the folder of the notebooks
    bills           the bill: what the trainings of each notebook sent, as one card that grows
    running         choices by data set, progress bars, errors shown in one line
    notebook        one notebook: its guesses, its checks, and the card that counts them
    nb00            answers of notebook 00 (try to answer before you look)
    nb01            answers of notebook 01
    nb01b           the questions of notebook 01b
    nb02            answers of notebook 02
    nb02b           answers of notebook 02b
    nb_gallery      answers of the codec gallery
    nb03            answers of notebook 03
    nb03b           answers of notebook 03b
    nb04            answers of notebook 04
    nb05            answers of notebook 05
    nb06            answers of notebook 06
    nb06b           answers of the appendix of notebooks 05 and 06
    nb07            answers of notebook 07
    nb07b           the question of notebook 07b
    nb08            answers of notebook 08
    nb09            answers of notebook 09
    nb10            answers of notebook 10
    nb11            answers of notebook 11
    nb12            answers of notebook 12
    nb13            answers of notebook 13
    nb14            answers of notebook 14
    quiz            answers of the quizzes in notebooks 03, 06, 09 and 12
    stored          language models that were trained longer, for notebook 11
    patients        a table of patients, for notebook 02b
    syllabus        all notebooks, and how much of them a reader has done
    plots           a room: pictures that move
    labs            a room: steer a training while it runs
    panels          a room: sliders for the notebooks
    cli             ``fltoolkit course``: copies the notebooks into a folder of the reader
    class_table     one table of what a class has handed in

`_reading` reads what was typed. This room imports little, because every notebook imports it.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
