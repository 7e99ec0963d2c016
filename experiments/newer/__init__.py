"""Newer methods on the byte axis: owners who differ, seeds and scalars, local steps, codecs.

    python -m experiments.newer              # chooses settings, then runs what is missing
    python -m experiments.newer --group owners --workers 2
    python -m experiments.newer --report     # prints the tables
    python -m experiments.newer --write      # writes them into docs/newer_methods.md

Each group is a file: what is compared, and one run of it. `setting` holds what they share, `report`
the tables. Every method has equally many trials on a validation part, with seeds of their own; the
tables show other seeds, and a test part that no choice saw.
"""
