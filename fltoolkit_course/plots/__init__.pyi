from .codec_report import CodecReport as CodecReport
from .codec_report import describe_codec as describe_codec
from .codec_report import draw_report as draw_report
from .live import watch as watch
