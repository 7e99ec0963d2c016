from .fronts import over_seconds as over_seconds
from .fronts import pareto as pareto
from .fronts import three_sizes as three_sizes
from .paper import save_figure as save_figure
from .points import named_points as named_points
from .report_page import html_report as html_report
