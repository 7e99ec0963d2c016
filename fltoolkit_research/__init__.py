"""Research: runs as values, sweeps, fronts; more codecs and protocols; leakage and secrecy.

    text        codecs, models and optimizers as text, read back without ``eval``
    task        data, network and parties, which a protocol is given
    protocol    the type of a protocol: a name, settings, and a function that trains
    protocols   the package's own protocols, each a small function; also those to compare with
    experiment  all settings that a run depends on, as one value
    metrics     what a test measures in other tasks than classes
    intervals   95 % intervals of means and of paired differences over seeds
    runs        from an experiment to its records
    store       results as lines of JSON in one file
    sweeps      many experiments on several cores, each run once
    analysis    Pareto fronts, bytes to a target
    tables      results as Markdown and CSV; the bytes of the training samples
    pretraining a small language model, trained once and kept in a file
    models      a small language model, and text that it continues
    finetuning  a frozen model and the small changes that are learned and sent
    decide_table  a table of several owners, read from a file
    decide      should we train together? measured on such a table
    commands    what ``fltoolkit sweep``, ``compare`` and ``decide`` do
    codecs      a room: rotations, learned levels, relatives of top-k
    data        a room: texts, more partitions
    federated   a room: more ways to train together
    pooled      a room: the samples themselves are sent, and one party trains
    leakage     a room: what others learn from what crossed, and what helps
    secrecy     a room: sums whose terms stay secret, and what they cost
    plots       a room: accuracy over bytes for a sweep, and a page about it

Notebooks 07, 07b, 08 and 11 to 13 use these functions.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
