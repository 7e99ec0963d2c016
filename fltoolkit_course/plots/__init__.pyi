from .live import watch as watch
