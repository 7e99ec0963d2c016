"""Training whose settings can be changed while it runs, in a notebook or in a script.

    runner           an iterator of records in a thread: start, pause, step, stop
    lab              settings, moves, runs, and a run as a script
    picture          what is drawn of a lab's runs
    panel            buttons and sliders around the picture
    train_threshold  what the next one trains; scripts print this file
    threshold        asynchronous states: the lab of notebook 03
    train_fedavg     what the next one trains
    fedavg           federated averaging: the lab of notebooks 04 to 06

No widgets are needed to run a lab: its methods do what the buttons do.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
