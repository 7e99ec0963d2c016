"""Course work: a master notebook, the release for students, grading, the gradebook.

    reading     reads a student's file in bounded time and memory; names what looks suspicious
    master      the master notebook and the release made from it
    check_cell  runs hidden checks last, and keeps their prints apart from the student's
    fence       runs a program that nobody trusts
    kernel      runs the cells of a submission, behind the fence
    worker      nbval in a process of its own
    names       finds the student of each file, and of each line of a table
    grading     grades all submissions of a folder
    gradebook   tables, feedback, and a file for the learning platform
    cli         ``fltoolkit assignment``

docs/instructors.md describes the way; no grammars of addresses are compiled, which takes 2 s.
"""

import sys

import lazy_loader as lazy

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
