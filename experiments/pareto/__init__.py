"""The headline: split and federated methods, their codecs and schedules, on one axis of bytes.

    settings    the methods as a list of `Experiment`s
    report      tables and figure
    tuned       the methods again, each with a learning rate chosen on held-out samples

The command is ``python -m experiments.pareto``; what came out is in docs/results.md.
"""
