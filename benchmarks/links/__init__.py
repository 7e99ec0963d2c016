"""Seconds on real links: how long do methods take, and does the model say so?

    emulator    two network namespaces and a link between them, whose rate and delay are set
    methods     six ways to train two parties, each as a function of a channel
    party       one of the two parties: trains, and says what it took
    settings    which links, how long, how often
    run         one link: start both parties, read what they say
    report      the model beside the clock, and what pays on which link

The command is ``python -m benchmarks.links``; it needs Linux, root, iproute2 and a quiet machine.
docs/links.md has the tables and what they say.
"""
