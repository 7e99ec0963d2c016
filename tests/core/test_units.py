"""Amounts and axis labels."""

from fltoolkit.units import amount, axis_of, byte_unit


def test_units() -> None:
    assert [byte_unit(n)[0] for n in (0, 999, 1000, 10**6, 10**9, 10**15)] == [
        "B",
        "B",
        "kB",
        "MB",
        "GB",
        "TB",
    ]
    assert axis_of("nbytes_up", 5e6) == ("bytes up [MB]", 1e-6)
    assert axis_of("seconds", 5) == ("seconds [s]", 1.0)
    assert amount("nbytes", 12) == "12 B"
    assert amount("loss", 0.03123) == "0.0312"
