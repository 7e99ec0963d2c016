"""Course work: a master notebook, its release, answers collected, graded and told.

    reading     a student's file, read in bounded time and memory
    master      the master notebook and the release made from it
    check_cell  how a hidden check runs last, undisturbed, and is heard apart
    seccomp     a filter of system calls
    mounts      a home in memory for each submission
    audit       what Python itself reports of a student's code
    users       a user of its own for each kernel
    sandbox     fences around the kernel that runs a submission
    worker      nbval in a process of its own
    names       whose file it is, and who is on the roster
    looks       suspicious code, and answers that are alike
    grading     all submissions of a folder
    gradebook   what comes out: tables, feedback, files for the learning platform
    cli         ``fltoolkit assignment``

See docs/instructors.md for the way from a master to a gradebook.
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
    Result,
    expected_outputs,
    find_submissions,
    grade,
    grade_one,
)
from fltoolkit.assignments.master import (
    AssignmentError,
    Master,
    Submission,
    Task,
    assemble,
    check,
    collect,
    lint,
    load_master,
    read_submission,
    release,
)
from fltoolkit.assignments.sandbox import Limits, fences

__all__ = [
    "LMS",
    "AssignmentError",
    "Limits",
    "Master",
    "Result",
    "Submission",
    "Task",
    "add_manual",
    "assemble",
    "check",
    "collect",
    "expected_outputs",
    "feedback",
    "fences",
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
