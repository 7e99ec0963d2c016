"""What tests put around the functions of some modules: shapes and types are checked."""

from functools import partial
from inspect import isfunction, isgeneratorfunction, signature
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int may stand for a float
with_shapes = jaxtyping.jaxtyped


def checked(fn: Any = None, *, typechecker: Any) -> Any:
    """jaxtyping's decorator, where a signature has shapes; elsewhere the checker alone is enough.

    It takes a tenth of the time. A function within another would be compiled at each call of that.
    """
    if fn is None:
        return partial(checked, typechecker=typechecker)
    if "<locals>" in fn.__qualname__:
        return fn
    simple = isfunction(fn) and not isgeneratorfunction(fn)  # whose arguments are checked too late
    if simple and "jaxtyping." not in str(signature(fn)):
        return typechecker(fn)
    return with_shapes(fn, typechecker=typechecker)


jaxtyping.jaxtyped = checked  # which the import hook puts there
