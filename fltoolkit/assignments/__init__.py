"""Course work: a master notebook, the release for students, grading, the gradebook.

    reading     reads a student's file in bounded time and memory
    master      the master notebook and the release made from it
    check_cell  runs hidden checks last, and keeps their prints apart from the student's
    audit       reports what a student's Python code tries to do
    kernel      runs the cells of a submission, behind the fence
    worker      nbval in a process of its own
    names       finds the student of each file, and the line of the roster
    looks       finds suspicious code, and answers that are alike
    grading     grades all submissions of a folder
    gradebook   tables, feedback, and files for the learning platform
    cli         ``fltoolkit assignment``

docs/instructors.md describes the way from a master to a gradebook.
"""

from fltoolkit.assignments.gradebook import (
    LMS,
    add_manual,
    feedback,
    fill_lms,
    histogram,
    rows,
    write,
)
from fltoolkit.assignments.grading import (
    Grade,
    Limits,
    expected_outputs,
    find_submissions,
    grade,
    grade_one,
)
from fltoolkit.assignments.master import (
    AssignmentError,
    Exercise,
    Master,
    Submission,
    assemble,
    check,
    collect,
    lint,
    load_master,
    read_submission,
    release,
)

__all__ = [
    "LMS",
    "AssignmentError",
    "Exercise",
    "Grade",
    "Limits",
    "Master",
    "Submission",
    "add_manual",
    "assemble",
    "check",
    "collect",
    "expected_outputs",
    "feedback",
    "fill_lms",
    "find_submissions",
    "grade",
    "grade_one",
    "histogram",
    "lint",
    "load_master",
    "read_submission",
    "release",
    "rows",
    "write",
]
