"""Moving pictures: what changes while a cell trains or a slider moves.

    drawing         charts as lists of marks, shown as SVG while they change and as PNG afterwards
    ideas           a drawing of each idea of the course
    live            progress and curves below a running cell
    below_controls  controls, and a picture that follows them, also in a page that was loaded anew

Figures that stay as they are belong to `fltoolkit.plots`.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
