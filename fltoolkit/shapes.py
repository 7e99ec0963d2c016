"""Shapes in annotations: ``Float32[Tensor, "batch cut"]`` is a Tensor of floats of this shape.

For Python and for type checkers it is a Tensor with a note. The tests import jaxtyping before they
import this package, and then each call is checked.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or "jaxtyping" not in sys.modules:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Float32
    from typing import Annotated as Int
    from typing import Annotated as Int64
    from typing import Annotated as Shaped
else:
    from jaxtyping import Bool, Float, Float32, Int, Int64, Shaped

__all__ = ["Bool", "Float", "Float32", "Int", "Int64", "Shaped"]
