"""Experiments: describe a run as a value, train it, store its records, compare results.

    text        codecs, models and optimizers as text, read back without ``eval``
    task        data, network and parties, which a protocol is given
    protocol    the type of a protocol: a name, settings, and a function that trains
    methods     the package's own protocols, each a small function
    baselines   protocols to compare with: send the data, train alone, do nothing
    experiment  all settings that a run depends on, as one value
    weighing    nominal, real and entropy bytes of the messages
    lines       the time of messages if each client has a line of its own
    runs        from an experiment to its records
    store       results in one SQLite file
    sweeps      many experiments on several cores or on a cluster, each run once
    intervals   95 % confidence intervals, and differences that are paired by seed
    analysis    Pareto fronts, bytes to a target
    tables      results as Markdown, LaTeX and CSV; the bytes of the training samples
    search      a search for the best settings within a number of bytes
    pretraining a small language model, trained once and kept in a file

Notebook 07 uses these functions.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)

import fltoolkit.research.methods  # noqa: E402, F401  # makes the package's own protocols known
