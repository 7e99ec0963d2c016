"""Panels with sliders for the notebooks; what they compute are functions that scripts call too.

    playground  one slider, one curve, one counter of bytes
    advisor     when does splitting pay?
    codec       what does a codec do to a tensor, and what does it cost?
    tradeoff    point at the runs of a sweep
    leakage     what an attacker sees behind a codec or noise

`_sliders` holds what all panels share.
"""

from fltoolkit.panels.advisor import advisor_panel, compare_bytes
from fltoolkit.panels.codec import codec_panel
from fltoolkit.panels.leakage import describe_leak, leak_panel, plot_reconstructions
from fltoolkit.panels.playground import playground, train_in_bits
from fltoolkit.panels.tradeoff import TradeoffPanel, describe_point

__all__ = [
    "TradeoffPanel",
    "advisor_panel",
    "codec_panel",
    "compare_bytes",
    "describe_leak",
    "describe_point",
    "leak_panel",
    "playground",
    "plot_reconstructions",
    "train_in_bits",
]
