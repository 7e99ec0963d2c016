from .text import Text as Text
from .text import load_text as load_text
from .text import speeches as speeches
