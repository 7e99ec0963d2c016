"""What every table of methods also shows: the null rows, and how many times the data a row sends.

    python -m experiments.null_rows    # measures how long the data are, compressed without loss

A method is compared with what needs no method: the samples sent to one place (without loss, in few
bits, fewer of them), each owner alone, nothing at all. The sizes of the data stand in
``experiments/results/data.jsonl``; what is there is not measured again.
"""

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

from experiments.runs import STORED, add, read
from fltoolkit.codecs import Codec, Pipeline, Quantize
from fltoolkit.codecs.stage import Stage
from fltoolkit_research.codecs import ContextEntropy
from fltoolkit_research.pooled import lossless, lossless_nbytes

KEPT = STORED / "data.jsonl"
DATA = ("digits", "mnist", "shakespeare")

SEND = "send the data"
ONE_BIT = f"{SEND}, 1 bit per pixel"
ONE_SUM = "one sum"
ALONE, WORST = "each owner alone, mean", "each owner alone, worst"
UNTRAINED, COMMONEST = "nothing: untrained network", "nothing: commonest class"
REQUIRED = frozenset({SEND, ONE_BIT, ALONE, WORST, UNTRAINED, COMMONEST})
"""What a table that compares methods on one task must show; `missing` says what it lacks."""
WITHOUT_OWNERS = frozenset({ALONE, WORST})
"""What a table with a single owner cannot show: its owner alone is the whole training set."""


def sent_in(*stages: Stage) -> dict[str, Codec]:
    """The codecs of samples and labels; ``stages`` are what is lost of the samples."""
    return {"samples": lossless(*stages), "labels": lossless()}


def bits(number: int) -> dict[str, Codec]:
    """The codecs with so many bits per pixel."""
    return sent_in(Quantize(number))


MODEL_BACK = {"model": Pipeline(Quantize(8), ContextEntropy())}
"""The trained model on its way back to the owners."""
SENT: dict[str, dict[str, Codec]] = {
    SEND: {**sent_in(), **MODEL_BACK},
    ONE_BIT: {**bits(1), **MODEL_BACK},
}
"""The codecs of rows that send the data and get the model back."""


def missing(names: Collection[str], *, one_owner: bool = False) -> set[str]:
    """The null rows that a table with these rows lacks.

    >>> sorted(missing([SEND, ONE_BIT, UNTRAINED], one_owner=True))
    ['nothing: commonest class']
    """
    return set(REQUIRED - (WITHOUT_OWNERS if one_owner else frozenset())) - {*names}


@cache
def data_nbytes(data: str) -> int:
    """The bytes of a data set's training samples and labels, compressed without loss."""
    rows = read(KEPT)
    if data not in rows:
        raise KeyError(f"{KEPT} does not know {data!r}: run python -m experiments.null_rows")
    return int(rows[data]["nbytes"])


def times(nbytes: float, data: str) -> str:
    """The cell "times the data" of a row that sent so many bytes.

    >>> times(0, "digits"), times(3 * data_nbytes("digits"), "digits")
    ('0', '3.0')
    """
    factor = nbytes / data_nbytes(data)
    if factor and factor < 0.01:
        return f"{factor:.1g}"
    digits = 0 if not factor or factor >= 100 else 1 if factor >= 1 else 2
    return f"{factor:,.{digits}f}"


def megabytes(nbytes: float, digits: int = 1) -> str:
    """The cell "MB sent": two significant digits below a megabyte, since data can be that small.

    >>> megabytes(0), megabytes(8_260), megabytes(341_000), megabytes(2.46e6), megabytes(4.6e9)
    ('0.0', '0.0083', '0.34', '2.5', '4,600.0')
    """
    size = nbytes / 1e6
    return f"{size:.2g}" if 0 < size < 0.95 else f"{size:,.{digits}f}"


def measure(names: Iterable[str] = DATA) -> None:
    """Add a line for each data set that the file does not have."""
    from fltoolkit import load
    from fltoolkit_research.data import load_text

    for name in names:
        if name not in read(KEPT):
            if name == "shakespeare":  # a text is its own labels, and its order counts
                text = load_text(name).train
                size, num_samples = lossless_nbytes(text), len(text)
            else:
                data = load("digits_known_writers" if name == "digits" else name)
                size = lossless_nbytes(data.x_train, data.y_train)
                num_samples = len(data.y_train)
            row: dict[str, Any] = {"data": name, "nbytes": size, "num_samples": num_samples}
            add(KEPT, {"key": name, **row})
    for row in read(KEPT).values():
        each = row["nbytes"] / row["num_samples"]
        print(f"{row['data']}: {row['nbytes']:,} bytes, {each:.2f} bytes per sample or character")


if __name__ == "__main__":
    measure()
