from .codec_report import CodecReport as CodecReport
from .codec_report import describe_codec as describe_codec
from .codec_report import plot_bits as plot_bits
from .codec_report import plot_values as plot_values
from .live import watch as watch
