"""Panels with sliders for the notebooks. Scripts can call the functions behind the panels, too.

    bits        one slider, one curve, one counter of bytes
    advisor     for how many clients does split learning send fewer bytes?
    codec       what does a codec do to a tensor, and how many bits does it take?
    tradeoff    the runs of a sweep on a Pareto plot
    leakage     what an attacker sees behind a codec or noise

`_sliders` holds what all panels share.
"""

from fltoolkit.panels.advisor import advisor_panel, compare_bytes
from fltoolkit.panels.bits import playground, train_in_bits
from fltoolkit.panels.codec import codec_panel
from fltoolkit.panels.leakage import describe_leak, leak_panel, plot_reconstructions
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
