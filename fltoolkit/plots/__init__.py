"""Pictures of histories, ledgers, codecs and sweeps, during a run and after it.

    style           colours, dashes, empty axes, and a description for screen readers
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

from fltoolkit.plots.codec_report import describe_codec, plot_bits, plot_values
from fltoolkit.plots.figures import (
    accuracy_over_bytes,
    curves,
    ledger,
    metric_over_steps,
    named_points,
    partition,
    save_figure,
)
from fltoolkit.plots.fronts import heat_map, over_seconds, pareto, three_sizes
from fltoolkit.plots.live import watch
from fltoolkit.plots.report_page import html_report
from fltoolkit.plots.style import COLORS, new_axes, new_figure, show

__all__ = [
    "COLORS",
    "accuracy_over_bytes",
    "curves",
    "describe_codec",
    "heat_map",
    "html_report",
    "ledger",
    "metric_over_steps",
    "named_points",
    "new_axes",
    "new_figure",
    "over_seconds",
    "pareto",
    "partition",
    "plot_bits",
    "plot_values",
    "save_figure",
    "show",
    "three_sizes",
    "watch",
]
