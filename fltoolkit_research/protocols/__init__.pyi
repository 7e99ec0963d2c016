from .averaging import fedavg as fedavg
from .cut import relay as relay
from .cut import split as split
from .cut import split_async as split_async
from .cut import splitfed as splitfed
from .null_rows import alone as alone
from .null_rows import nothing as nothing
from .null_rows import pooled as pooled
