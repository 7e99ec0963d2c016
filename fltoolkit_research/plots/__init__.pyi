from .fronts import over_seconds as over_seconds
from .fronts import pareto as pareto
from .points import named_points as named_points
