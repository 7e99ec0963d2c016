from .check import check as check
from .fingerprint import fingerprint as fingerprint
from .predict import predict as predict
from .progress import progress as progress
from .running import by_dataset as by_dataset
from .running import need as need
from .running import progress_bar as progress_bar
