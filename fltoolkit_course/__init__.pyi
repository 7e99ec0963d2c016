from .comparison import check as check
from .fingerprints import fingerprint as fingerprint
from .guesses import predict as predict
from .running import by_dataset as by_dataset
from .running import need as need
from .running import progress_bar as progress_bar
from .syllabus import progress as progress
