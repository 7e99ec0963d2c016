from .batches import Batches as Batches
from .datasets import Samples as Samples
from .datasets import load as load
from .partitions import partition_dirichlet as partition_dirichlet
from .partitions import partition_iid as partition_iid
from .partitions import split_features as split_features
