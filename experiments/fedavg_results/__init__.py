"""Federated averaging on MNIST: rounds to a goal, and accuracy against real bytes both ways.

    settings    what is sent in which codec, who has which samples, how they learn
    run         one training run
    report      the tables

The command is ``python -m experiments.fedavg_results``; what came out is in docs/fedavg_results.md.
"""
