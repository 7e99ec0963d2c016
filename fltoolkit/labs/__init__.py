"""Training that is steered while it runs, in a notebook or in a script.

    runner      an iterator of records in a thread: start, pause, step, stop
    board       the values that describe a lab: settings, plots, strips, runs
    lab         settings, moves, runs and the script that repeats them
    threshold   asynchronous states: the lab of notebook 03
    fedavg      federated averaging: the lab of notebooks 04 to 06
    picture     what is drawn of a lab's runs
    drawing     the picture as SVG and as PNG
    panel       buttons and sliders around it

No widgets are needed to run a lab: its methods do what the buttons do.
"""

from fltoolkit.labs.board import Board, Look, Move, Plot, Run, Setting, Strip, Training
from fltoolkit.labs.drawing import coarse, figure, svg
from fltoolkit.labs.fedavg import FedAvgLab, model_codec, update_codec
from fltoolkit.labs.lab import Lab
from fltoolkit.labs.panel import Panel
from fltoolkit.labs.picture import Axes, Line, Picture, Points, Trace, compose, status_in_words
from fltoolkit.labs.runner import Runner, Status
from fltoolkit.labs.threshold import ThresholdLab, WhatIf, codec_of

__all__ = [
    "Axes",
    "Board",
    "FedAvgLab",
    "Lab",
    "Line",
    "Look",
    "Move",
    "Panel",
    "Picture",
    "Plot",
    "Points",
    "Run",
    "Runner",
    "Setting",
    "Status",
    "Strip",
    "ThresholdLab",
    "Trace",
    "Training",
    "WhatIf",
    "coarse",
    "codec_of",
    "compose",
    "figure",
    "model_codec",
    "status_in_words",
    "svg",
    "update_codec",
]
