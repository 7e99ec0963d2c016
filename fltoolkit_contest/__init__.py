"""The megabyte cup: who reaches the target with the fewest bytes? A contest and its verifier.

    from fltoolkit_contest import TRACKS, verify

An entry is one Python file that reads like a protocol. The verifier runs each party in a process of
its own behind a fence, carries every message between them, and counts it. docs/cup.md has the rules
and a first entry. Read the room in this order:

    tracks       the tasks: who has what, which score is wanted, and what a run may use
    entry        the file that takes part: what it may hold for nothing
    pipes        a message between the verifier and a process as bytes (NumPy alone)
    party        what runs behind the fence: one owner, or the server
    slots        the wire: what is charged, and what arrives
    hosts        the fenced processes, and what they used
    referee      five runs and a replay
    card         the result, checked again by anyone; the table of a class or of the records
    commands     ``fltoolkit cup``
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
