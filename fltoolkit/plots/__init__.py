"""Pictures: of histories, of ledgers, of codecs, of sweeps; while a run goes on and for good.

    svg             line charts as SVG text, quick enough to redraw while training runs
    figures         matplotlib figures of histories, channels and partitions
    live            progress and curves below a running cell
    codec_report    what a codec does to one tensor
    pareto          accuracy over bytes of a whole sweep
    html_report     one HTML file that tells a sweep

Charts that move are SVG text; pictures that stay are matplotlib's.
"""

from fltoolkit.plots.codec_report import (
    CodecReport,
    describe_codec,
    plot_bits,
    plot_values,
    report_svg,
)
from fltoolkit.plots.figures import (
    accuracy_over_bytes,
    curves,
    ledger,
    metric_over_steps,
    new_axes,
    new_figure,
    partition,
    picture,
    save_figure,
    show,
)
from fltoolkit.plots.html_report import html_report
from fltoolkit.plots.live import Curve, watch
from fltoolkit.plots.pareto import heat_map, over_seconds, pareto, three_sizes
from fltoolkit.plots.svg import COLORS, DASHES, chart, drawing, spread, text

__all__ = [
    "COLORS",
    "DASHES",
    "CodecReport",
    "Curve",
    "accuracy_over_bytes",
    "chart",
    "curves",
    "describe_codec",
    "drawing",
    "heat_map",
    "html_report",
    "ledger",
    "metric_over_steps",
    "new_axes",
    "new_figure",
    "over_seconds",
    "pareto",
    "partition",
    "picture",
    "plot_bits",
    "plot_values",
    "report_svg",
    "save_figure",
    "show",
    "spread",
    "text",
    "three_sizes",
    "watch",
]
