"""How long an experiment's training samples are, compressed without loss: for "times the data".

Not here: the codec (`fltoolkit.pooled.lossless`), the tables that show the factor (tables).
"""

from functools import lru_cache

from fltoolkit.data.datasets import without_downloads
from fltoolkit.pooled.times import lossless_nbytes
from fltoolkit.research.experiment import Experiment
from fltoolkit.research.task import samples

_SAMPLED = 5000  # of more samples, so many are compressed, and the rest is estimated from them


def data_nbytes(experiment: Experiment) -> int:
    """The bytes of all training samples and labels of an experiment, compressed without loss.

    Of more than 5,000 samples, a part is compressed and the rest is estimated: for MNIST that is
    1.2 % above all of them. Nothing is downloaded.

    Raises ValueError where the size cannot be known, and says why: the files are not on this
    machine, the data set's function fails, or each target is a whole sequence, whose windows
    overlap.

    >>> 28_000 < data_nbytes(Experiment()) < 30_000
    True
    """
    e = experiment
    return _nbytes(e.data, e.num_samples, e.validation)


@lru_cache(maxsize=16)
def _nbytes(name: str, num_samples: int | None, validation: float) -> int:
    try:
        with without_downloads():
            data = samples(name, "cnn", num_samples, validation)  # images, not flat
    except Exception as error:  # a function of somebody else may raise anything
        raise ValueError(f"{error}".partition("\n")[0] or type(error).__name__) from error
    x, y = data.x_train, data.y_train
    if y.dim() > 1 and not y.is_floating_point():
        raise ValueError("its targets are sequences: windows of a text may overlap")
    return lossless_nbytes(x, y, sample=_SAMPLED)
