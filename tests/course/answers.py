"""What several test files of this room share."""

import pytest

Printed = pytest.CaptureFixture[str]


NAN = float("nan")
