"""What does it cost that the server sees no single update?

    settings    how updates travel: in the clear or in secret, in how many bits
    run         one training run, its bytes by kind and its seconds
    attack      what an attacker reconstructs from one update, from a masked one and from a sum
    noise       accuracy over bytes over epsilon, with noise from each client
    flower_secagg  how many bits per value Flower's SecAgg+ sends
    report      the tables

The command is ``python -m experiments.secrecy``; what came out is in docs/secrecy.md.
"""
