"""Amounts in words: bytes with unit, fractions in percent, and the axis label of a record's key."""

import math

__all__ = ["amount", "tick"]

_LABELS = {
    "nbytes": "bytes sent",
    "nbytes_up": "bytes up",
    "nbytes_down": "bytes down",
    "nbytes_per_client": "bytes per client",
    "num_clients": "number of clients",
    "num_parameters": "number of parameters",
}


def byte_unit(largest: float) -> tuple[str, int]:
    """The unit in which ``largest`` bytes are easy to read, and its size: 1 kB is 1000 B."""
    power = sum(largest >= 1000**k for k in (1, 2, 3, 4))
    return ("B", "kB", "MB", "GB", "TB")[power], 1000**power


def axis_label(key: str) -> str:
    """The label of an axis for a record's ``key``, with its unit; of bytes, each tick has one."""
    label = _LABELS.get(key, key.replace("_", " "))
    if "accuracy" in key:
        return f"{label} [%]"
    return f"{label} [s]" if "seconds" in key else label


def tick(key: str, value: float) -> str:
    """``value`` of a record's ``key`` as text for a tick of the axis that `axis_label` names.

    >>> tick("nbytes", 4_000_000), tick("accuracy", 0.9), tick("step", 1_000_000)
    ('4 MB', '90', '1,000,000')
    """
    if key.startswith("nbytes"):
        unit, size = byte_unit(value)
        return f"{value / size:,.10g} {unit}" if value else "0"
    return f"{100 * value if 'accuracy' in key else value:,.10g}"


def axis_of(key: str, largest: float) -> tuple[str, float]:
    """An axis label with one unit for all ticks, and the factor that converts to this unit."""
    if key.startswith("nbytes"):
        unit, size = byte_unit(largest)
        return f"{axis_label(key)} [{unit}]", 1 / size
    return axis_label(key), 100.0 if "accuracy" in key else 1.0


def amount(key: str, value: float) -> str:
    """``value`` of a record's ``key`` as text, with its unit; a dash for NaN (not known).

    >>> amount("nbytes", 163_854), amount("accuracy", 0.9712), amount("step", 938)
    ('163.9 kB', '97.1 %', '938')
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
