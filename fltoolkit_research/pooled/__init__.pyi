from .compressors import Distinct as Distinct
from .compressors import Smallest as Smallest
from .compressors import lossless as lossless
from .protocol import at_random as at_random
from .protocol import pool as pool
from .times import beside_the_data as beside_the_data
from .times import lossless_nbytes as lossless_nbytes
