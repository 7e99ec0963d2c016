"""The same parties, codecs and protocols on engines that others have built.

What changes is the channel. Each engine is imported in its own module and nowhere else:
`torch_distributed` (one process a party), `flower` (many clients), `syft` (private owners).
"""
