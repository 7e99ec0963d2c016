"""The audit: what papers and systems say they save, measured here with real bytes.

    claim       what a claim is, and the verdicts
    rule        the one rule of inference: what an interval says about a bound
    stored      runs of the other experiments, found again by their keys
    measures    what claims measure: an experiment, a codec on an update
    run         finding the claims, measuring what is missing
    page        the page docs/audit.md and the picture for the README

Each file of ``claims/`` has a claim, or several that are measured alike; docs/audit.md says how to
add one.
The command is ``python -m experiments.audit``.
"""
