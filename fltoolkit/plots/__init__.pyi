from .figures import accuracy_over_bytes as accuracy_over_bytes
from .figures import curves as curves
from .figures import ledger as ledger
from .figures import partition as partition
from .style import COLORS as COLORS
from .style import new_axes as new_axes
from .style import new_figure as new_figure
from .style import show as show
