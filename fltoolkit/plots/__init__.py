"""Pictures of histories, ledgers, codecs and sweeps, during a run and after it.

    style           colours, dashes, empty axes, and a description for screen readers
    placing         places for words beside marks
    drawing         charts as lists of marks, shown as SVG while they change and as PNG afterwards
    ideas           a drawing of each idea of the course
    figures         matplotlib figures of histories, channels and partitions
    live            progress and curves below a running cell
    below_controls  controls, and a picture that follows them, also in a page that was loaded anew
    codec_report    what a codec does to one tensor
    fronts          accuracy over bytes for a whole sweep
    report_page     one HTML file about a sweep

A figure function takes histories, runs or reports and returns matplotlib Axes. In a notebook,
`show` displays them at the end of a cell.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
