from .lowrank import PowerSGD as PowerSGD
from .lowrank import Subspace as Subspace
from .narrow import Narrow as Narrow
from .rotate import DRIVE as DRIVE
from .rotate import EDEN as EDEN
from .rotate import Rotate as Rotate
from .same_mask import SameMask as SameMask
from .same_mask import SameMaskChannel as SameMaskChannel
