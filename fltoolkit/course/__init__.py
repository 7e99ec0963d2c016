"""What the notebooks ask of their reader.

    predict         a guess before a result, and how far it was off
    check           a self-check of an answer, with hints
    fingerprint     a short text that stands for a value, to compare with
    cli             ``fltoolkit course``: the notebooks in a folder of one's own

`_words` says values in words. This room is light: every notebook imports it.
"""

from fltoolkit.course.check import check
from fltoolkit.course.fingerprint import fingerprint
from fltoolkit.course.predict import predict

__all__ = ["check", "fingerprint", "predict"]
