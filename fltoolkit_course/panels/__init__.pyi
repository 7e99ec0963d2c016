from .bits import Playground as Playground
from .bits import train_in_bits as train_in_bits
from .leakage import LeakPanel as LeakPanel
from .leakage import LeakReport as LeakReport
from .leakage import describe_leak as describe_leak
from .leakage import plot_reconstructions as plot_reconstructions
from .owners import OwnersPanel as OwnersPanel
from .tradeoff import TradeoffPanel as TradeoffPanel
