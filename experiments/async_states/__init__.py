"""Accuracy against real bytes when the client may fall silent.

    settings    what is learned, and in which ways
    run         one training run
    report      the tables

The command is ``python -m experiments.async_states``; what came out is in docs/async_states.md.
"""
