"""What leaks at the cut, and at which price in bytes and accuracy does it leak less?

    settings    how activations and gradients travel, and what Alice does about leakage
    run         one training run with the attacks after it
    report      tables and figures

The command is ``python -m experiments.leakage``; what came out is in docs/leakage.md.
"""
