"""Results of runs that never were, for tests of what is made of results."""

from fltoolkit.history import History
from fltoolkit_research import Experiment, Result


def made_up(name, seed, *rows, rounds=5):
    """A result whose run measured (bytes, accuracy) in turn."""
    history = History(
        {
            **{"step": n, "round": n, "nbytes": nbytes, "accuracy": accuracy, "num_waits": 10 * n},
            "nbytes_update_up": nbytes,
        }
        for n, (nbytes, accuracy) in enumerate(rows, 1)
    )
    return Result(Experiment(name=name, seed=seed, rounds=rounds), history, "", 1.0)


CHEAP = [made_up("cheap", 0, (100, 0.5), (200, 0.8)), made_up("cheap", 1, (100, 0.7), (220, 0.6))]


DEAR = [
    made_up("dear", 0, (1000, 0.4), (2000, 0.9), rounds=6),
    made_up("dear", 1, (1000, 0.6), (2000, 0.96), rounds=6),
]


WORSE = [made_up("worse", seed, (3000, 0.9), rounds=7) for seed in (0, 1)]


FAILED = Result(Experiment(name="broken"), History(), "Traceback\n  ...\nValueError: no\n", 0.1)


ALL = [*CHEAP, *DEAR, *WORSE, FAILED]
