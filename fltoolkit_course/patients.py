"""Patients of notebook 02b: what was measured of a lump in the breast, and whether it was cancer.

Not here: tables of your own, which `fltoolkit_research.decide_table` reads.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

PARTS = {
    "size": ("radius", "perimeter", "area"),
    "texture": ("texture", "smoothness", "symmetry"),
    "shape": ("compactness", "concavity", "concave points", "fractal dimension"),
}


class Patients(NamedTuple):
    """569 people; department "size" has the columns ``x[:, columns["size"]]``."""

    x: Tensor  # float32 [people, 30]: mean, spread and worst of ten properties of cells
    y: Tensor  # int64 [people]: 1 is cancer
    names: list[str]  # of the 30 columns
    columns: dict[str, list[int]]  # which of them each of three departments has


def patients() -> Patients:
    """Wisconsin Diagnostic Breast Cancer, from its copy beside this file.

    Source: Wolberg, Street and Mangasarian 1993, UCI repository, doi 10.24432/C5DW2B, CC BY 4.0.

    >>> {name: len(columns) for name, columns in patients().columns.items()}
    {'size': 9, 'texture': 9, 'shape': 12}
    """
    with np.load(Path(__file__).parent / "stored" / "patients.npz") as file:
        x, y, names = (file[key] for key in ("x", "y", "names"))
    parts = {
        department: [
            i for i, name in enumerate(names) if any(f" {part}" in f" {name}" for part in of)
        ]
        for department, of in PARTS.items()
    }
    return Patients(
        torch.from_numpy(x), torch.from_numpy(y.astype(np.int64)), names.tolist(), parts
    )
