"""Amounts in words: bytes with unit, fractions in percent, and the axis label of a record's key.

Not here: drawing (the room plots).
"""

import math

__all__ = ["amount", "axis_of", "byte_unit"]


_LABELS = {
    "nbytes": "bytes sent",
    "nbytes_up": "bytes up",
    "nbytes_down": "bytes down",
    "nbytes_per_client": "bytes per client",
    "num_clients": "number of clients",
    "num_parameters": "number of parameters",
}


def byte_unit(largest: float) -> tuple[str, int]:
    """The unit in which ``largest`` bytes read well, and its size: 1 kB is 1000 B.

    >>> byte_unit(163_854)
    ('kB', 1000)
    """
    power = sum(largest >= 1000**k for k in (1, 2, 3, 4))
    return ("B", "kB", "MB", "GB", "TB")[power], 1000**power


def axis_of(key: str, largest: float) -> tuple[str, float]:
    """Axis label with unit for a record's ``key``, and the factor that brings values to that unit.

    >>> axis_of("accuracy", 0.97)
    ('accuracy [%]', 100.0)
    """
    label = _LABELS.get(key, key.replace("_", " "))
    if key.startswith("nbytes"):
        unit, size = byte_unit(largest)
        return f"{label} [{unit}]", 1 / size
    if "accuracy" in key:
        return f"{label} [%]", 100.0
    return (f"{label} [s]" if "seconds" in key else label), 1.0


def amount(key: str, value: float) -> str:
    """``value`` of a record's ``key`` in words with its unit.

    >>> amount("nbytes", 163_854), amount("accuracy", 0.9712), amount("step", 938)
    ('163.9 kB', '97.1 %', '938')

    What is not known, NaN, is a dash.
    """
    if math.isnan(value):
        return "-"
    if key.startswith("nbytes"):
        unit, size = byte_unit(value)
        return f"{value / size:,.{1 if size > 1 else 0}f} {unit}"
    if "accuracy" in key:
        return f"{100 * value:.1f} %"
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{value:,.0f}"
    return f"{value:.3g}"
