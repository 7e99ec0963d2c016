from .partitions import owner_numbers as owner_numbers
from .partitions import partition_contiguous as partition_contiguous
from .partitions import partition_owners as partition_owners
from .partitions import partition_shards as partition_shards
from .text import Text as Text
from .text import load_text as load_text
from .text import speeches as speeches
